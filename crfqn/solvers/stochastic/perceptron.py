"""Averaged perceptron (Collins 2002), passive-aggressive learning (Crammer et al. 2006) and AROW (2009).

These fast baselines label one item after another and correct the weights after each wrong one, for some epochs. The
model is the mean of the weights after each item, or AROW's last weights. They do not minimise an objective, ignore
penalties and have no gap; the value of the result is the objective at the weights of the model.
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
    n_epochs : int >= 1
        The maximum number of passes over the items; a pass without a wrong label is the last one.
    random_state : int >= 0
        The seed of the order of the items, which differs from epoch to epoch.

    References
    ----------
    Collins: Discriminative training methods for hidden Markov models: theory and experiments with perceptron
    algorithms. EMNLP 2002, Figure 2 and section 2.5.
    """

    needs: ClassVar[Requirements] = Requirements(states=(PerceptronState,))

    n_epochs: int = 20
    random_state: int = 0

    aggressiveness: ClassVar[float] = 0.0  # as of `PerceptronState.correct`
    variance: ClassVar[float] = 0.0  # as of `PerceptronState`

    def __post_init__(self) -> None:
        check_integers(self, 1, "n_epochs")
        check_integers(self, 0, "random_state")

    def steps(self, objective: Objective, penalty: Penalty, start: Point) -> Iterator[State]:
        """Yield a state after each epoch, the last one with its value."""
        if not objective.total_weight > 0:
            raise InputError(
                f"{type(self).__name__} expected at least one item with a weight above 0, got none"
            )
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
    """Settings of passive-aggressive learning (PA-I): the smallest correction with a sufficient margin, up to a limit.

    Parameters
    ----------
    n_epochs, random_state : as of `AveragedPerceptron`
    C : float > 0
        The limit of a step, in units of weight per unit of feature value.

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
    """Settings of adaptive regularization of weights (AROW): steps are proportional to the variances of the weights,
    which decrease with each correction.

    Parameters
    ----------
    n_epochs, random_state : as of `AveragedPerceptron`
    gamma : float > 0
        A larger value takes smaller steps, and decreases the variances less.
    variance : float > 0
        The initial variance of each weight.

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
