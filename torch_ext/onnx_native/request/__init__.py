"""one call of torch.onnx.export: its arguments, shapes and names, checked and in one form."""
