"""Finds what a program asks of its tensors besides their elements, and why it asks."""
