"""Chierchia, Pustelnik, Pesquet, Pesquet-Popescu: A proximal approach for sparse multiclass SVM. 2015.

Algorithm 1 is `constrained.py`, Algorithm 2 `regularised.py`.
"""
