"""Prox-QN, the proximal quasi-Newton method of Zhong, Yen, Dhillon and Ravikumar (2014): Algorithm 2 and its parts.

`prox_qn.py` has the algorithm and its warm start, `active_set.py` the rules of the working set, `metric.py` B0 and the
secant pairs, `step.py` the inner problem and the line search or damping, and `constants.py` the constants of the
default.
"""

from crfqn.solvers.prox_qn.active_set import AllCoordinates, ByLastViolation, ByShareOfBound, TopViolators
from crfqn.solvers.prox_qn.constants import Constants
from crfqn.solvers.prox_qn.metric import Diagonal, Identity, TokenWise
from crfqn.solvers.prox_qn.prox_qn import ProxQN, Stage, WarmStart
from crfqn.solvers.prox_qn.step import Backtracking, CostAwareSweeps, LevenbergMarquardtSearch, PaperSweeps

__all__ = [
    "AllCoordinates",
    "Backtracking",
    "ByLastViolation",
    "ByShareOfBound",
    "Constants",
    "CostAwareSweeps",
    "Diagonal",
    "Identity",
    "LevenbergMarquardtSearch",
    "PaperSweeps",
    "ProxQN",
    "Stage",
    "TokenWise",
    "TopViolators",
    "WarmStart",
]  # fmt: skip
