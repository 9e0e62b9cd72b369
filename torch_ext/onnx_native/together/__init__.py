"""Several models with one file of weights."""
