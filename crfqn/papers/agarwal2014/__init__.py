"""Agarwal, Kakade, Karampatziakis, Song, Valiant: Least squares revisited. ICML 2014.

Algorithm 1 is `gls.py`, with its estimator in `generalized.py`; Algorithm 2 is `calibrated.py`, Algorithm 3
`stagewise.py`, whose features `generators.py` makes. The inner fits of both are `fits.py`, the base of all models
of stages is `stages.py`.
"""
