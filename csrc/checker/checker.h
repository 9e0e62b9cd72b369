// onnx's own C++ checker, in a library of its own (libonnx_native_check.so) that the API loads when
// a model is to be checked.
#pragma once

// Runs the full check, shape inference included, on a model file with its external data. Returns
// nullptr, or what is wrong; the text lives until this thread's next call.
extern "C" __attribute__((visibility("default"))) const char* onnx_native_check_file(
    const char* path);
