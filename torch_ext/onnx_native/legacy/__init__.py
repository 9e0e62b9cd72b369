"""Callers of torch.onnx.export(..., dynamo=False), and programs that are run as they are."""
