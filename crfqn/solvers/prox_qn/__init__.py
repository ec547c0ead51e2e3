"""Prox-QN, the proximal quasi-Newton method of Zhong, Yen, Dhillon and Ravikumar (2014): Algorithm 2 and its parts.

`prox_qn.py` is the algorithm. What it is composed of: `active_set.py` and `entry.py` (the coordinates that an epoch
works on), `ending.py` (when it ends), `metric.py` and `compact_bfgs.py` (B0, and the secant pairs on top),
`quadratic_model.py` (the inner problem), `globalisation.py` and `damping.py` (what makes every step a descent),
`warm_start.py` (where a run begins).
"""

from crfqn.solvers.prox_qn.entry import AllCoordinates, ByLastViolation, ByShareOfBound, MostPromising
from crfqn.solvers.prox_qn.globalisation import Backtracking, Resolving
from crfqn.solvers.prox_qn.metric import Diagonal, Identity, TokenWise
from crfqn.solvers.prox_qn.prox_qn import ProxQN
from crfqn.solvers.prox_qn.quadratic_model import ByBudget, UntilSolved
from crfqn.solvers.prox_qn.warm_start import Stage, WarmStart

__all__ = [
    "AllCoordinates",
    "Backtracking",
    "ByBudget",
    "ByLastViolation",
    "ByShareOfBound",
    "Diagonal",
    "Identity",
    "MostPromising",
    "ProxQN",
    "Resolving",
    "Stage",
    "TokenWise",
    "UntilSolved",
    "WarmStart",
]
