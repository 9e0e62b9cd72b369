"""the program that a model was exported from, to run call by call."""
