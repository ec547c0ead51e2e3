"""Loops over sparse matrices and sorted index sets."""
