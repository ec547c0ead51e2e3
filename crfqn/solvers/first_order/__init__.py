"""Proximal gradient methods: Prox-GD, FISTA, SpaRSA."""
