"""Objectives: a feature map x a loss of the scores x weights of the items, at points."""
