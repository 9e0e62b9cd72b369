"""Writes the report of an export: text, and a page with the graph."""
