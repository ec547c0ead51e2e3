"""Dual methods, blocks of dual variables, an item each; and primal-dual splitting."""
