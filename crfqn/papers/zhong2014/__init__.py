"""Zhong, Yen, Dhillon, Ravikumar: Proximal quasi-Newton for computationally intensive l1-regularized M-estimators.

NIPS 2014. The methods that the paper compares with; its own, Algorithm 2, is `crfqn/solvers/prox_qn/`.
"""
