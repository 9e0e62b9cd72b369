"""Calls of torch.onnx.export as people write them, modeled on public code."""
