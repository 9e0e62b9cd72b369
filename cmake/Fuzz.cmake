# The fuzz targets, one per reader, and nothing else (test/fuzz/README.md).
foreach(room ${rooms_built})
  target_compile_options(room_${room} PRIVATE
    -O1 -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=undefined)
endforeach()
set(fuzz_objects)
foreach(room ${rooms_built})
  list(APPEND fuzz_objects $<TARGET_OBJECTS:room_${room}>)
endforeach()
onnx_native_include_folder(fuzz fuzz_includes base aten onnx ops passes writer readers api onnx_native)

# What the targets share, not sanitized: it makes the files.
add_library(fuzzing OBJECT test/fuzz/archive.cpp test/fuzz/calls.cpp test/fuzz/choices.cpp
  test/fuzz/export.cpp test/fuzz/source.cpp)
file(GLOB fuzz_sources CONFIGURE_DEPENDS test/fuzz/*_fuzz.cpp)
set(fuzz_targets)
foreach(source ${fuzz_sources})
  get_filename_component(name "${source}" NAME_WE)
  list(APPEND fuzz_targets ${name})
  add_executable(${name} "${source}" $<TARGET_OBJECTS:fuzzing> ${fuzz_objects})
  target_link_libraries(${name} PRIVATE torch::torch_cpu torch::c10 onnx_native_messages)
  target_link_options(${name} PRIVATE ${torch_link_options} -fsanitize=fuzzer,address,undefined)
  set_target_properties(${name} PROPERTIES BUILD_RPATH "${TORCH_ROOT}/lib")
endforeach()
foreach(target fuzzing ${fuzz_targets})
  target_include_directories(${target} PRIVATE "${fuzz_includes}" "${PROJECT_SOURCE_DIR}/test")
  target_compile_options(${target} PRIVATE ${onnx_native_warnings})
  target_link_libraries(${target} PRIVATE onnx_native_fmt torch::headers nlohmann_json::nlohmann_json)
endforeach()
