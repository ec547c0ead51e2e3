"""Primal-dual splitting: forward-backward steps on weights and dual variables, for losses without curvature."""
