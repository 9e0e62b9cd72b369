# A device for the Python tests: test/devices/device.cpp. They load the library.
add_library(onnx_native_test_device MODULE test/devices/device.cpp)
target_compile_options(onnx_native_test_device PRIVATE ${onnx_native_warnings} -O0)
target_link_libraries(onnx_native_test_device PRIVATE torch::torch_cpu torch::c10)
target_link_options(onnx_native_test_device PRIVATE ${torch_link_options})
set_target_properties(onnx_native_test_device PROPERTIES BUILD_RPATH "${TORCH_ROOT}/lib")
