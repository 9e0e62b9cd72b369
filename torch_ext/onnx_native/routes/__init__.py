"""Exports: tries the captures in order, with the stages that they share."""
