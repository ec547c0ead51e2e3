"""What `scripts/benchmark.py` measures: a module a problem, a module a library, one judge for all of them."""
