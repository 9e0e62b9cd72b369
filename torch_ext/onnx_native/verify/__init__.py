"""compares a model in ONNX Runtime with the program it was exported from."""
