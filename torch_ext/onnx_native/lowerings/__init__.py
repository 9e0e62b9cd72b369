"""lowerings written in Python, by users, PyTorch's library and symbolic functions."""
