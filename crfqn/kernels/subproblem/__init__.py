"""Coordinate descent: on Prox-QN's quadratic model, by coordinate and by group, and on a CRF's feature blocks."""
