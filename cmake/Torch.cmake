# PyTorch for our own build: torch::c10, torch::torch_cpu, torch::torch_python (TorchTargets.cmake), and
#   torch::headers   include folders only
#   onnx_native_fmt  torch's own {fmt}, alone
include(TorchTargets)
if(NOT TORCH_VERSION OR TORCH_VERSION VERSION_LESS 2.13)
  message(FATAL_ERROR "onnx_native needs PyTorch 2.13 or newer, found ${TORCH_VERSION} in "
                      "'${TORCH_ROOT}': give -DTORCH_ROOT=... or -DPython3_EXECUTABLE=...")
endif()
message(STATUS "PyTorch ${TORCH_VERSION} in ${TORCH_ROOT}")
onnx_native_forget_folder("${TORCH_ROOT}/..")

add_library(torch_headers INTERFACE)
add_library(torch::headers ALIAS torch_headers)
target_include_directories(torch_headers SYSTEM INTERFACE ${torch_includes})

# A room may use {fmt} without seeing any other header of torch. All rooms use the same one, also those
# that another build has compiled (ONNX_NATIVE_ROOMS in Rooms.cmake).
set(fmt_folder "${PROJECT_BINARY_DIR}/links/fmt")
file(MAKE_DIRECTORY "${fmt_folder}")
set(fmt_headers "${TORCH_ROOT}/include/fmt")
if(ONNX_NATIVE_ROOMS)
  file(READ_SYMLINK "${ONNX_NATIVE_ROOMS}/links/fmt/fmt" fmt_headers)
endif()
file(CREATE_LINK "${fmt_headers}" "${fmt_folder}/fmt" SYMBOLIC)
add_library(onnx_native_fmt INTERFACE)
target_include_directories(onnx_native_fmt SYSTEM INTERFACE "${fmt_folder}")
target_compile_definitions(onnx_native_fmt INTERFACE FMT_HEADER_ONLY)
