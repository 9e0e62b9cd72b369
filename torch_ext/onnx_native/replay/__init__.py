"""Runs the program that a model was exported from, call by call."""
