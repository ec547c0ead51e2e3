"""What `scripts/measure.py` measures: a file a command, whose function `main` has its options."""
