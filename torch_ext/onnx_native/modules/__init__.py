"""Knows the user's module: its state, what a run changes in it, and its values in eager."""
