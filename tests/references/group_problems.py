"""Problems and optima of penalties on groups of weights, for all of their tests."""

from __future__ import annotations

import numpy as np
import pytest

from crfqn.penalties import GroupLasso

NORMS = ("l2", "linf")
norms = pytest.mark.parametrize("norm", NORMS)
N_STATES, N_FEATURES = 3, 4  # of the penalties that stand alone: 12 node weights, 3 edges
COORDS = np.arange(15)
FREE = np.array([1, 5, 9, 13])  # all weights of feature 1, and an edge
STRENGTHS = [(1.3, 0.0, 0.0), (0.8, 0.5, 0.0), (0.8, 0.0, 0.7), (0.6, 0.4, 0.3), (0.0, 0.6, 0.2)]
strengths = pytest.mark.parametrize("given_strengths", STRENGTHS, ids=str)


def small_penalty(given_strengths=(1.3, 0.0, 0.0), norm="l2", unpenalised=FREE):
    return GroupLasso(*given_strengths, norm, unpenalised, n_features=N_FEATURES, n_states=N_STATES)
