"""programs that torch.export captured: what it lost is found, or put back."""
