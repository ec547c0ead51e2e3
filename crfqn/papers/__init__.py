"""Algorithms for the reproduction of papers, one folder each; other folders use them by name only."""
