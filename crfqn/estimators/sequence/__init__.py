"""Estimators of label sequences."""
