"""Chierchia, Pustelnik, Pesquet, Pesquet-Popescu: A proximal approach for sparse multiclass SVM. 2015.

Algorithm 1 is `regularised.py`, Algorithm 2 `constrained.py`, restarts `halpern.py`; `splitting_state.py` has the
hinge and its sets, `epigraphs.py` the projection onto an epigraph. See also `docs/study-fbpd.md`.
"""
