"""Labels and weights of the items that a classifier learns from."""
