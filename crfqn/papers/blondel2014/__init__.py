"""Blondel, Fujino, Ueda: Large-scale multiclass SVM training via Euclidean projection onto the simplex.

ICPR 2014. The kernel machine is `svc.py`; Algorithm 1 with linear scores is `crfqn/solvers/dual/decomposition.py`, the
sub-solvers that it is compared with are `sub_solver_kernels.py`.
"""
