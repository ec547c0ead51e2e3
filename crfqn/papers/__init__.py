"""Algorithms that exist to reproduce a paper, a folder a paper; nothing else of the library imports them."""
