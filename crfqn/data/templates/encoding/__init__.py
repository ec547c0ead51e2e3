"""Encoding: what patterns find in token columns becomes columns of features."""
