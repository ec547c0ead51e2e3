"""Settings of solvers that are out of range are refused by name."""

from __future__ import annotations

import numpy as np
import pytest

from crfqn.errors import InputError
from crfqn.papers.blondel2013.fobos import FOBOS
from crfqn.papers.zhong2014.prox_gd import FISTA
from crfqn.solvers.coordinate.row_descent import RowDescent
from crfqn.solvers.dual.block_frank_wolfe import BlockFrankWolfe
from crfqn.solvers.quasi_newton.owl_qn import OWLQN
from crfqn.solvers.sparsa import SpaRSA
from crfqn.solvers.stochastic.perceptron import PassiveAggressive
from crfqn.solvers.stochastic.sgd import SGDL1

BAD = [
    (SGDL1, {"eta0": 0.0}, "eta0: expected None or a finite number > 0, got 0.0"),
    (SGDL1, {"eta0": np.inf}, "eta0: .* got inf"),
    (SGDL1, {"eta0": "fast"}, "eta0: .* got 'fast'"),
    (SGDL1, {"calibration_items": 0}, "calibration_items: expected an integer >= 1, got 0"),
    (SGDL1, {"evaluate_every": 1.5}, "evaluate_every: expected an integer >= 1, got 1.5"),
    (SGDL1, {"random_state": -1}, "random_state: expected an integer >= 0, got -1"),
    (SGDL1, {"random_state": None}, "random_state: expected an integer >= 0, got None"),
    (PassiveAggressive, {"n_epochs": 0}, "n_epochs: expected an integer >= 1, got 0"),
    (PassiveAggressive, {"n_epochs": 2.5}, "n_epochs: expected an integer >= 1, got 2.5"),
    (PassiveAggressive, {"random_state": -1}, "random_state: expected an integer >= 0, got -1"),
    (PassiveAggressive, {"C": 0}, "C: expected a finite number > 0, got 0"),
    (PassiveAggressive, {"C": np.nan}, "C: expected a finite number > 0, got nan"),
    (SpaRSA, {"memory": -1}, "memory: expected an integer >= 0, got -1"),
    (SpaRSA, {"memory": True}, "memory: expected an integer >= 0, got True"),
    (SpaRSA, {"sigma": 1.0}, "sigma: expected a number between 0 and 1, got 1.0"),
    (SpaRSA, {"factor": 1.0}, "factor: expected a finite number > 1, got 1.0"),
    (SpaRSA, {"least_curvature": 0.0}, "least_curvature <= most_curvature < infinity, got 0.0 and 1e"),
    (SpaRSA, {"most_curvature": 1e-40}, "least_curvature <= most_curvature < infinity"),
    (BlockFrankWolfe, {"by_gaps": None}, "by_gaps: expected True or False, got None"),
    (BlockFrankWolfe, {"refresh": 0}, "refresh: expected an integer >= 1, got 0"),
    (BlockFrankWolfe, {"random_state": -1}, "random_state: expected an integer >= 0, got -1"),
    (FOBOS, {"eta0": 0.0}, "eta0: expected None or a finite number > 0, got 0.0"),
    (FOBOS, {"held_out": 1.0}, "held_out: expected a number between 0 and 1, got 1.0"),
    (FOBOS, {"calibration_items": 1}, "calibration_items: expected an integer >= 2, got 1"),
    (FOBOS, {"evaluate_every": 0}, "evaluate_every: expected an integer >= 1, got 0"),
    (FOBOS, {"random_state": 0.5}, "random_state: expected an integer >= 0, got 0.5"),
    (RowDescent, {"step": "newton"}, r"step: expected one of .*, got 'newton'"),
    (RowDescent, {"sigma": 0.0}, r"sigma: expected a number between 0 and 1, got 0.0"),
    (RowDescent, {"omega": 1.0}, r"omega: expected a number between 0 and 1"),
    (RowDescent, {"tau": 2.0}, r"tau: expected a number between 0 and 1, got 2.0"),
    (RowDescent, {"cooling": -1.0}, r"cooling: expected a number between 0 and 1"),
    (RowDescent, {"max_sweeps": 0}, r"max_sweeps: expected an integer >= 1, got 0"),
    (RowDescent, {"memory": 1}, r"memory: expected 0 or an integer >= 2, got 1"),
    (RowDescent, {"step": "parallel"}, r"step: expected one of .*, got 'parallel'"),
    (RowDescent, {"seed": 0.5}, r"seed: expected an integer >= 0, got 0.5"),
    (OWLQN, {"memory": 0}, "memory: expected a number >= 1, got 0"),
    (OWLQN, {"armijo": 1.0}, "armijo: expected a number between 0 and 1, got 1.0"),
    (OWLQN, {"backtrack": 0.0}, "backtrack: expected a number between 0 and 1, got 0.0"),
    (FISTA, {"lipschitz": 0.0}, "lipschitz: expected a finite number > 0"),
    (FISTA, {"lipschitz": "best"}, "lipschitz: expected a finite number > 0"),
    (FISTA, {"backtrack": 1.0}, "backtrack: expected a number between 0 and 1"),
    (FISTA, {"growth": 0.9}, "growth: expected a number >= 1"),
    (FISTA, {"restart": "often"}, "restart: expected one of"),
]


@pytest.mark.parametrize(("solver", "settings", "message"), BAD)
def test_settings_out_of_range_are_refused(solver, settings, message):
    with pytest.raises(InputError, match=message):
        solver(**settings)
