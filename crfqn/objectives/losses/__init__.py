"""Losses of the scores: likelihoods of structures, hinges of margins, rankings."""
