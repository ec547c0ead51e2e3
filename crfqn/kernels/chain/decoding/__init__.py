"""The best labellings of chains, the n best, and the rules that they obey."""
