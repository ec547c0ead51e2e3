"""Classifiers of single items: flat, into a taxonomy, by any loss and penalty."""
