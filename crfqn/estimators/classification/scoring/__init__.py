"""Scores of new items under fitted weights."""
