"""A program fuzzer: exports random PyTorch programs by every route and compares with eager."""
