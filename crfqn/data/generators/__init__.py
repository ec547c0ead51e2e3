"""Generators of features, batch by batch: what stagewise regression fits one batch after the other."""
