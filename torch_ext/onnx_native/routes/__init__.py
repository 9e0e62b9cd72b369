"""the entry: the order in which an export tries its captures, and the stages they share."""
