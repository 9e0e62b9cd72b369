# torch::c10, torch::torch_cpu, torch::torch_python: imported targets for PyTorch's libraries, without
# find_package(Torch): that one insists on a CUDA toolkit for a CUDA build and drags in the full
# protobuf library. For our own build and for those of applications (onnx_native-config.cmake).
#   TORCH_ROOT     the torch folder of a Python environment, or an unpacked LibTorch; where it is not
#                  given, from Torch_DIR, from CMAKE_PREFIX_PATH or from Python3_EXECUTABLE's torch
#   TORCH_VERSION  its major.minor; empty when no PyTorch was found
set(TORCH_VERSION)
if(NOT TORCH_ROOT AND Torch_DIR)
  get_filename_component(TORCH_ROOT "${Torch_DIR}/../../.." ABSOLUTE)
endif()
if(NOT TORCH_ROOT)
  find_path(TORCH_HEADERS torch/headeronly/version.h NO_CACHE)
  if(TORCH_HEADERS)
    get_filename_component(TORCH_ROOT "${TORCH_HEADERS}/.." ABSOLUTE)
  endif()
endif()
if(NOT TORCH_ROOT)
  if(NOT Python3_EXECUTABLE)
    find_package(Python3 QUIET COMPONENTS Interpreter)
  endif()
  execute_process(
    COMMAND "${Python3_EXECUTABLE}" -c
            "import importlib.util as u;print(u.find_spec('torch').submodule_search_locations[0],end='')"
    OUTPUT_VARIABLE TORCH_ROOT ERROR_QUIET)
endif()

set(torch_version_header "${TORCH_ROOT}/include/torch/headeronly/version.h")
if(NOT EXISTS "${torch_version_header}")
  return()
endif()
file(STRINGS "${torch_version_header}" TORCH_VERSION REGEX "define TORCH_VERSION_(MAJOR|MINOR) ")
list(TRANSFORM TORCH_VERSION REPLACE "^.* ([0-9]+).*$" "\\1")
list(JOIN TORCH_VERSION "." TORCH_VERSION)

set(torch_includes "${TORCH_ROOT}/include" "${TORCH_ROOT}/include/torch/csrc/api/include")
foreach(lib c10 torch_cpu torch_python)
  if(NOT TARGET torch::${lib})
    add_library(torch::${lib} SHARED IMPORTED)
    set_target_properties(torch::${lib} PROPERTIES
      IMPORTED_LOCATION "${TORCH_ROOT}/lib/lib${lib}.so"
      IMPORTED_SONAME "lib${lib}.so"
      INTERFACE_SYSTEM_INCLUDE_DIRECTORIES "${torch_includes}"
      INTERFACE_INCLUDE_DIRECTORIES "${torch_includes}")
  endif()
endforeach()
# Libraries that these pull in are found beside them, not named by us.
set(torch_link_options "LINKER:-rpath-link,${TORCH_ROOT}/lib")
