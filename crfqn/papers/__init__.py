"""Algorithms that exist to reproduce a paper, a folder a paper; other folders use them by name only."""
