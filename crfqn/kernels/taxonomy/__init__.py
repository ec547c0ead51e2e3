"""Inference over taxonomies: path sums down, marginals up; stochastic steps, and block coordinate descent's state."""
