"""Losses seen from one row of the weights, and the sweeps over rows of block coordinate descent and FOBOS."""
