"""The study of least squares revisited: Agarwal, Kakade, Karampatziakis, Song, Valiant (ICML 2014)."""
