"""Collects lowerings written in Python: the user's, PyTorch's library, symbolic functions."""
