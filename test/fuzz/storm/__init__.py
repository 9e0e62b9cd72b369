"""A fuzzer of programs: random PyTorch programs, exported by every route and run against eager."""
