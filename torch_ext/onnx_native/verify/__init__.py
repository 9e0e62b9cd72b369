"""Compares a model in ONNX Runtime with the program that it was exported from."""
