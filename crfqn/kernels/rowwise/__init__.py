"""Rows of the weights and the margins that follow them, for block coordinate descent."""
