"""Kernels of Euclidean projections: the level of a simplex by three methods, and rows of a matrix."""
