"""Sums over all labellings of chains: forward-backward in its three forms, and what follows from its messages."""
