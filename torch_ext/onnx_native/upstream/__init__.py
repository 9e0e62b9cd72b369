"""Names what the package uses of PyTorch's private names."""
