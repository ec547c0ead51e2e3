"""Sums for models of the Hessian, and for the bounds on gradients that safe screening needs."""
