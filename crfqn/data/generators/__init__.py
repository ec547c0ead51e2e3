"""Generators of features in batches, which stagewise regression fits one after the other."""
