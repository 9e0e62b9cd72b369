"""Loops over a dynamic size: recorded at a few lengths, and rolled into scans of any length."""
