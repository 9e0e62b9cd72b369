"""sizes that stay symbolic where Python, NumPy or PyTorch would make numbers of them."""
