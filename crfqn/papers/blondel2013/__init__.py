"""Blondel, Seki, Uehara: Block coordinate descent algorithms for large-scale sparse multiclass classification.

Machine Learning 93, 2013. The method that the paper compares with; its own, Algorithms 1 to 3, are
`crfqn/solvers/coordinate/row_descent.py`.
"""
