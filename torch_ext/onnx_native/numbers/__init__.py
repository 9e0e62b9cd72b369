"""Keeps sizes symbolic where Python, NumPy or PyTorch would turn them into numbers."""
