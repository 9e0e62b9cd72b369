"""Checks programs that torch.export captured, and restores what the capture lost."""
