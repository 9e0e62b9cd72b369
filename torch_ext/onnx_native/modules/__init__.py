"""the user's module: its state, what a run does to it, and its values in eager."""
