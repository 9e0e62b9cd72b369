"""PyTorch's private names."""
