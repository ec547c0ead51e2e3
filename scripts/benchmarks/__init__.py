"""What `scripts/benchmark.py` measures: a module a problem, beside the libraries that they share."""
