# The fuzz targets, one per reader, and nothing else (test/fuzz/README.md).
# Sanitized and guiding the fuzzer: the rooms that hostile files reach first. The others have the
# standard library's assertions, which see what leaves a vector, and compile in a third of the time.
foreach(room base aten readers api)
  target_compile_options(room_${room} PRIVATE
    -O1 -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=undefined)
endforeach()
set(fuzz_objects)
foreach(room ${rooms_built})
  list(APPEND fuzz_objects $<TARGET_OBJECTS:room_${room}>)
endforeach()
onnx_native_include_folder(fuzz fuzz_includes base aten onnx ops passes writer readers api onnx_native)

file(GLOB fuzz_sources CONFIGURE_DEPENDS test/fuzz/*_fuzz.cpp)
foreach(source ${fuzz_sources})
  get_filename_component(name "${source}" NAME_WE)
  add_executable(${name} "${source}" test/fuzz/calls.cpp test/fuzz/export.cpp ${fuzz_objects})
  target_include_directories(${name} PRIVATE "${fuzz_includes}" "${PROJECT_SOURCE_DIR}/test")
  target_compile_options(${name} PRIVATE ${onnx_native_warnings})
  target_link_libraries(${name} PRIVATE onnx_native_fmt torch::torch_cpu torch::c10
    onnx_native_messages nlohmann_json::nlohmann_json)
  target_link_options(${name} PRIVATE ${torch_link_options} -fsanitize=fuzzer,address,undefined)
  set_target_properties(${name} PROPERTIES BUILD_RPATH "${TORCH_ROOT}/lib")
endforeach()
