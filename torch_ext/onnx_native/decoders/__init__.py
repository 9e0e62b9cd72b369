"""Exports models of transformers that generate text, with their key and value cache."""
