"""Inference over taxonomies: path sums down, marginals up."""
