# Imported targets for PyTorch's libraries, without find_package(Torch): that one insists on a CUDA
# toolkit for a CUDA build and drags in the full protobuf library.
#   TORCH_ROOT  the torch folder of a Python environment, or an unpacked LibTorch; found from
#               Torch_DIR or from Python3_EXECUTABLE's torch where it is not given
#   torch::headers  include folders only;  torch::c10, torch::torch_cpu, torch::torch_python
if(NOT TORCH_ROOT AND Torch_DIR)
  get_filename_component(TORCH_ROOT "${Torch_DIR}/../../.." ABSOLUTE)
endif()
if(NOT TORCH_ROOT)
  execute_process(
    COMMAND "${Python3_EXECUTABLE}" -c
            "import importlib.util as u;print(u.find_spec('torch').submodule_search_locations[0],end='')"
    OUTPUT_VARIABLE TORCH_ROOT COMMAND_ERROR_IS_FATAL ANY)
endif()

file(STRINGS "${TORCH_ROOT}/include/torch/headeronly/version.h" version_lines
     REGEX "define TORCH_VERSION_(MAJOR|MINOR) ")
list(TRANSFORM version_lines REPLACE "^.* ([0-9]+).*$" "\\1")
list(JOIN version_lines "." TORCH_VERSION)
message(STATUS "PyTorch ${TORCH_VERSION} in ${TORCH_ROOT}")
if(TORCH_VERSION VERSION_LESS 2.13)
  message(FATAL_ERROR "onnx_native needs PyTorch 2.13 or newer, found ${TORCH_VERSION}")
endif()

set(torch_includes "${TORCH_ROOT}/include" "${TORCH_ROOT}/include/torch/csrc/api/include")
add_library(torch_headers INTERFACE)
add_library(torch::headers ALIAS torch_headers)
target_include_directories(torch_headers SYSTEM INTERFACE ${torch_includes})
foreach(lib c10 torch_cpu torch_python)
  add_library(torch::${lib} SHARED IMPORTED)
  set_target_properties(torch::${lib} PROPERTIES
    IMPORTED_LOCATION "${TORCH_ROOT}/lib/lib${lib}.so"
    IMPORTED_SONAME "lib${lib}.so"
    INTERFACE_SYSTEM_INCLUDE_DIRECTORIES "${torch_includes}"
    INTERFACE_INCLUDE_DIRECTORIES "${torch_includes}")
endforeach()
# Libraries that libtorch_python pulls in are found beside it, not named by us.
set(torch_link_options "LINKER:-rpath-link,${TORCH_ROOT}/lib")

# torch's own {fmt}, alone: a room may use it without seeing any other header of torch.
set(fmt_folder "${PROJECT_BINARY_DIR}/links/fmt")
file(MAKE_DIRECTORY "${fmt_folder}")
file(CREATE_LINK "${TORCH_ROOT}/include/fmt" "${fmt_folder}/fmt" SYMBOLIC)
add_library(onnx_native_fmt INTERFACE)
target_include_directories(onnx_native_fmt SYSTEM INTERFACE "${fmt_folder}")
target_compile_definitions(onnx_native_fmt INTERFACE FMT_HEADER_ONLY)
