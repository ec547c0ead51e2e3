"""Patterns: what users write, by windows, pattern files or words; the names of their features."""
