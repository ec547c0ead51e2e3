"""Coordinate descent: on a quadratic model, by coordinate and by group, and on feature blocks."""
