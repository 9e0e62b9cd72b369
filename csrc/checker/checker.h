// onnx's own C++ checker, in a separate library (libonnx_native_check.so) that the API loads at the
// first check.
#pragma once

// Runs the full check, including shape inference, on a model file and its external data. Returns
// nullptr if the model is valid, else a message that is valid until this thread's next call.
extern "C" __attribute__((visibility("default"))) const char* onnx_native_check_file(
    const char* path);
