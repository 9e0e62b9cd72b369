"""Compiles modules as TorchScript if no recording can hold the program."""
