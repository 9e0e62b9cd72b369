"""transformers models that generate text, with their key and value cache."""
