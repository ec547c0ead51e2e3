"""Averaged perceptron (Collins 2002), passive-aggressive learning (Crammer et al. 2006), AROW (2009): quick baselines.

All label an item, compare with what was observed and correct the weights, item after item, for some epochs; the model
is the mean of the weights after each item, with AROW the last weights. They minimise no objective: the result's value
is that of the objective at the model's weights, for comparison, and there is no gap. Penalties take no part.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from crfqn.errors import InputError
from crfqn.result import Status
from crfqn.solvers.protocols import (
    Objective,
    Penalty,
    Point,
    Requirements,
    Solver,
    State,
    check_integers,
    check_positive,
)
from crfqn.solvers.stochastic.state import PerceptronState


@dataclass(frozen=True)
class AveragedPerceptron(Solver):
    """Settings of the averaged perceptron; an iteration is an epoch.

    Parameters
    ----------
    n_epochs : int
        Passes over the items; fewer if one finds no mistake.
    random_state : int
        Seed of the order of the items, new in every epoch.

    References
    ----------
    Collins: Discriminative training methods for hidden Markov models: theory and experiments with perceptron
    algorithms. EMNLP 2002, Figure 2 and section 2.5.
    """

    n_epochs: int = 20
    random_state: int = 0

    aggressiveness: ClassVar[float] = 0.0  # steps of 1
    variance: ClassVar[float] = 0.0  # of no weight: all learn alike

    def __post_init__(self) -> None:
        check_integers(self, 1, "n_epochs")
        check_integers(self, 0, "random_state")

    def requires(self, objective: Objective, penalty: Penalty) -> Requirements:
        return Requirements(states=(PerceptronState,))

    def steps(self, objective: Objective, penalty: Penalty, start: Point) -> Iterator[State]:
        """A state after each epoch, and the last one with its value."""
        if not objective.total_weight > 0:
            raise InputError(f"{type(self).__name__} needs at least one item with a weight above 0, got none")
        online = objective.state(PerceptronState, start.sparse_weights, self.variance)
        del start
        random = np.random.default_rng(self.random_state)
        for epoch in range(self.n_epochs):
            n_wrong = online.correct(random.permutation(online.n_items), self.aggressiveness)
            point = online.point()
            if epoch + 1 == self.n_epochs or n_wrong == 0:
                # The objective at the mean of the weights.
                value = point.value + penalty.value(point.coords, point.weights)
                size = point.coords.size
                yield State(point, value, np.nan, size, end=Status.LEARNED, is_step=True, n_wrong=n_wrong)
                return
            yield State(point, np.nan, np.nan, point.coords.size, n_wrong=n_wrong)


@dataclass(frozen=True)
class PassiveAggressive(AveragedPerceptron):
    """Settings of passive-aggressive learning (PA-I): the least change that puts an item right, within a limit.

    Parameters
    ----------
    n_epochs, random_state : as of `AveragedPerceptron`
    C : float
        The limit of a step, in units of weight a unit of feature value.

    References
    ----------
    Crammer, Dekel, Keshet, Shalev-Shwartz, Singer: Online passive-aggressive algorithms. JMLR 7, 2006, Figure 1 (PA-I)
    and section 9; the loss of a labelling is the square root of its wrong positions.
    """

    C: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive(self, "C")

    @property
    def aggressiveness(self) -> float:  # type: ignore[override]
        """The limit of a step."""
        return self.C


@dataclass(frozen=True)
class AROW(AveragedPerceptron):
    """Settings of adaptive regularization of weights (AROW): a weight has a variance, which says how much it may
    still change, and falls with each correction.

    Parameters
    ----------
    n_epochs, random_state : as of `AveragedPerceptron`
    gamma : float
        The larger, the smaller are the steps, and the slower the variances fall.
    variance : float
        That of each weight at the start.

    References
    ----------
    Crammer, Kulesza, Dredze: Adaptive regularization of weight vectors. NIPS 2009, Figure 1 with a diagonal covariance;
    the loss of a labelling is the number of its wrong positions, and the covariance is CRFsuite's: 1 / v_j grows by
    Delta_j^2 / gamma.
    """

    gamma: float = 1.0
    variance: float = 1.0  # type: ignore[misc]

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive(self, "gamma")
        check_positive(self, "variance")

    @property
    def aggressiveness(self) -> float:  # type: ignore[override]
        """The tradeoff gamma."""
        return self.gamma
