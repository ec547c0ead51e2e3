"""What `scripts/reproduce_bcd.py` measures, draws and writes: a module for each of them."""
