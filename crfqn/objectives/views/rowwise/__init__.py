"""Views by rows of the weights, a row a feature: for row descent."""
