"""The start item by item: for which problems it is, and that the optimum is that of a fit without it."""

import numpy as np
import pytest

from crfqn import ChainCRF
from crfqn.solvers.minimize import minimize
from crfqn.solvers.prox_qn import Constants, ProxQN
from crfqn.solvers.prox_qn.prox_qn import MIN_POSITIONS, OnlineStart
from crfqn.solvers.stopping import Run

LENGTH = 25


def text(n_positions):
    """A problem of sentences with a vocabulary that grows with them."""
    random = np.random.default_rng(0)
    words = random.integers(0, n_positions // 4, (n_positions // LENGTH, LENGTH))
    items = [[{"word": str(word), "odd": word % 2 == 1} for word in sentence] for sentence in words]
    labels = [[str((word + (random.random() < 0.1)) % 3) for word in sentence] for sentence in words]
    problem = ChainCRF(l1=1.0).prepare(items, labels)
    return problem.objective, problem.penalty


@pytest.mark.parametrize(
    ("n_positions", "is_suited"), [(MIN_POSITIONS - LENGTH, False), (MIN_POSITIONS, True)]
)
def test_it_is_for_texts_that_are_long_enough(n_positions, is_suited):
    assert OnlineStart().suits(*text(n_positions)) == is_suited


def test_the_optimum_does_not_depend_on_it():
    problem = text(MIN_POSITIONS)
    values = [
        minimize(*problem, ProxQN(constants=Constants(online_epochs=epochs)), Run(tol=1e-8)).value
        for epochs in (0, 6)
    ]
    assert values[0] == pytest.approx(values[1], rel=1e-7)
