# What the rooms make together: the core library, the library Python loads, the command line, the
# C++ tests, and a Python package that can be imported from the build tree.
set(package_folder "${PROJECT_BINARY_DIR}/python/onnx_native")
# What links to PyTorch is built for one version of it: a package has a folder for each.
set(libraries_folder "${package_folder}/torch-${TORCH_VERSION}")
file(MAKE_DIRECTORY "${libraries_folder}")
if(NOT rooms_built)
  return()
endif()

set(room_objects)
foreach(room ${rooms_built})
  list(APPEND room_objects $<TARGET_OBJECTS:room_${room}>)
endforeach()
set(core_needs torch::torch_cpu torch::c10 onnx_native_messages)

# Exports the namespace onnx_native and nothing else; needs no Python.
add_library(onnx_native_core SHARED ${room_objects})
add_library(onnx_native::core ALIAS onnx_native_core)
target_include_directories(onnx_native_core INTERFACE "$<BUILD_INTERFACE:${public_folder}>")
target_link_libraries(onnx_native_core PRIVATE ${core_needs})
target_link_options(onnx_native_core PRIVATE ${torch_link_options} "LINKER:--exclude-libs,ALL"
  "LINKER:-z,defs" "LINKER:-Bsymbolic-functions"
  "LINKER:--version-script=${PROJECT_SOURCE_DIR}/cmake/exports.map")
set_target_properties(onnx_native_core PROPERTIES
  LINKER_LANGUAGE CXX
  LINK_DEPENDS "${PROJECT_SOURCE_DIR}/cmake/exports.map"
  LIBRARY_OUTPUT_DIRECTORY "${libraries_folder}"
  BUILD_RPATH "$ORIGIN;$ORIGIN/..;${TORCH_ROOT}/lib")

# The command line: an executable, and in the library that Python loads.
onnx_native_include_folder(cli cli_includes cli)
file(GLOB cli_sources CONFIGURE_DEPENDS csrc/cli/*.cpp)
list(FILTER cli_sources EXCLUDE REGEX "/main\\.cpp$")
onnx_native_units(cli_units onnx_native_cli_objects "${PROJECT_SOURCE_DIR}/csrc" ${cli_sources})
add_library(onnx_native_cli_objects OBJECT ${cli_units})
target_include_directories(onnx_native_cli_objects PUBLIC "${cli_includes}")
target_compile_options(onnx_native_cli_objects PRIVATE ${onnx_native_warnings}
                                                       $<$<CONFIG:RelWithDebInfo>:-O1>)
target_link_libraries(onnx_native_cli_objects PUBLIC onnx_native_core PRIVATE CLI11::CLI11)
add_executable(onnx_native_cli csrc/cli/main.cpp)
target_link_libraries(onnx_native_cli PRIVATE onnx_native_cli_objects)
# PyTorch's own libraries may need others that the build machine lacks, such as CUDA's.
target_link_options(onnx_native_cli PRIVATE ${torch_link_options} "LINKER:--allow-shlib-undefined")
set_target_properties(onnx_native_cli PROPERTIES
  OUTPUT_NAME onnx-native
  BUILD_RPATH "${libraries_folder};${TORCH_ROOT}/lib")

if(ONNX_NATIVE_PYTHON)
  file(GLOB plugin_sources CONFIGURE_DEPENDS torch_ext/plugin/*.cpp)
  set(python_folder "${PROJECT_SOURCE_DIR}/torch_ext/onnx_native")
  file(GLOB_RECURSE python_files CONFIGURE_DEPENDS RELATIVE "${python_folder}"
       torch_ext/onnx_native/*.py torch_ext/onnx_native/*.pyi torch_ext/onnx_native/py.typed
       torch_ext/onnx_native/report/page/*)
  file(GLOB_RECURSE stale "${package_folder}/*.py" "${package_folder}/*.pyi")
  file(REMOVE ${stale} "${package_folder}/page")
  foreach(file ${python_files})
    get_filename_component(folder "${package_folder}/${file}" DIRECTORY)
    file(MAKE_DIRECTORY "${folder}")
    file(CREATE_LINK "${python_folder}/${file}" "${package_folder}/${file}" SYMBOLIC)
  endforeach()
  file(WRITE "${package_folder}/_build_info.py" "VERSION = \"${PROJECT_VERSION}\"\n")
endif()
if(ONNX_NATIVE_PYTHON AND plugin_sources)
  # A room that knows Python: onnx_native_python_room(TARGET include-folder).
  # It is bound by Python's objects: -O2 would only double the compile time.
  function(onnx_native_python_room target includes)
    target_include_directories(${target} PRIVATE "${includes}")
    target_include_directories(${target} SYSTEM PRIVATE ${Python3_INCLUDE_DIRS})
    target_compile_options(${target} PRIVATE ${onnx_native_warnings} -fvisibility=hidden
                                             $<$<CONFIG:RelWithDebInfo>:-O1>)
  endfunction()
  file(GLOB fx_sources CONFIGURE_DEPENDS torch_ext/fx/*.cpp)
  onnx_native_include_folder(fx fx_includes base aten fx)
  onnx_native_units(fx_units onnx_native_fx_objects "${PROJECT_SOURCE_DIR}/torch_ext" ${fx_sources})
  add_library(onnx_native_fx_objects OBJECT ${fx_units})
  onnx_native_python_room(onnx_native_fx_objects "${fx_includes}")
  target_link_libraries(onnx_native_fx_objects PRIVATE onnx_native_fmt torch::headers)
  onnx_native_include_folder(plugin plugin_includes
    base aten onnx ops/engine readers capture api onnx_native fx cli plugin)
  onnx_native_units(plugin_units onnx_native_plugin "${PROJECT_SOURCE_DIR}/torch_ext" ${plugin_sources})
  add_library(onnx_native_plugin MODULE ${plugin_units}
    $<TARGET_OBJECTS:onnx_native_fx_objects> $<TARGET_OBJECTS:onnx_native_cli_objects>)
  onnx_native_python_room(onnx_native_plugin "${plugin_includes}")
  target_compile_definitions(onnx_native_plugin PRIVATE
    ONNX_NATIVE_VERSION="${PROJECT_VERSION}" ONNX_NATIVE_TORCH_VERSION="${TORCH_VERSION}")
  target_link_libraries(onnx_native_plugin PRIVATE
    onnx_native_fmt onnx_native_core torch::torch_python torch::torch_cpu torch::c10)
  target_link_options(onnx_native_plugin PRIVATE ${torch_link_options} "LINKER:--exclude-libs,ALL")
  set_target_properties(onnx_native_plugin PROPERTIES
    OUTPUT_NAME onnx_native
    LIBRARY_OUTPUT_DIRECTORY "${libraries_folder}"
    BUILD_RPATH "$ORIGIN;${TORCH_ROOT}/lib")
endif()

if(ONNX_NATIVE_TESTS)
  file(GLOB_RECURSE test_sources CONFIGURE_DEPENDS test/cpp/*.cpp)
  foreach(room ${rooms_taken})  # tested where they were built
    list(FILTER test_sources EXCLUDE REGEX "/test/cpp/${room}/")
  endforeach()
endif()
if(ONNX_NATIVE_TESTS AND test_sources)
  enable_testing()
  find_package(GTest REQUIRED)
  # The rooms' objects themselves: a test reaches what the shared library does not export.
  onnx_native_units(test_units onnx_native_test "${PROJECT_SOURCE_DIR}/test/cpp" ${test_sources})
  add_executable(onnx_native_test ${test_units} ${room_objects})
  onnx_native_include_folder(test test_includes
    base aten onnx ops passes writer readers capture api onnx_native)
  target_include_directories(onnx_native_test PRIVATE "${test_includes}" "${PROJECT_SOURCE_DIR}/test/cpp")
  target_compile_options(onnx_native_test PRIVATE ${onnx_native_warnings} -O0)
  target_compile_definitions(onnx_native_test PRIVATE
    ONNX_NATIVE_SOURCE_DIR="${PROJECT_SOURCE_DIR}"
    ONNX_NATIVE_VERSION="${PROJECT_VERSION}" ONNX_NATIVE_TORCH_VERSION="${TORCH_VERSION}")
  target_link_libraries(onnx_native_test PRIVATE
    onnx_native_fmt ${core_needs} onnx_native_schemas GTest::gtest GTest::gtest_main)
  target_link_options(onnx_native_test PRIVATE ${torch_link_options})
  set_target_properties(onnx_native_test PROPERTIES
    BUILD_RPATH "${package_folder};${TORCH_ROOT}/lib")
  add_test(NAME cpp COMMAND onnx_native_test --gtest_brief=1)
endif()
