"""Holds the exported program: its model, its files, its runs."""
