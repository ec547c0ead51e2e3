"""Kernels of dual decomposition for the multiclass hinge: the sub-problem of an item, and sweeps over items."""
