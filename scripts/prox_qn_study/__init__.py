"""What `scripts/reproduce_prox_qn.py` measures, draws and writes: a module for each of them."""
