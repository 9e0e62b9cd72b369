"""Reads one call of torch.onnx.export: checks its arguments, shapes and names."""
