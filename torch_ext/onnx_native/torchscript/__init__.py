"""modules compiled as TorchScript, where no recording can hold the program."""
