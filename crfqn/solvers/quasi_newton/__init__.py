"""Quasi-Newton methods without an active set: L-BFGS and its orthant-wise variant."""
