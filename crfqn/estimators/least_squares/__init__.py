"""Classifiers by repeated least squares: Agarwal, Kakade, Karampatziakis, Song, Valiant (ICML 2014)."""
