"""Sums for models of the Hessian and for how far gradients can move."""
