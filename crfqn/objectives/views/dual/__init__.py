"""Dual variables of the items: for dual decomposition, Frank-Wolfe and primal-dual splitting."""
