"""Stochastic gradient descent with a cumulative L1 penalty (Tsuruoka, Tsujii and Ananiadou 2009).

Each step goes against the gradient of a single item, with the rate eta_k = eta0 / (1 + k / N) of the paper's comparison
(section 6). A weight is then pulled towards 0 by whatever part of the penalty that has fallen due until now it has not
received yet, and stops at 0. Bound to one core, far in the first passes, and slow to the last digits.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from crfqn.errors import InputError
from crfqn.objectives.objective import MethodState
from crfqn.solvers.protocols import (
    Objective,
    Penalty,
    Point,
    Requirements,
    Solver,
    SparseWeights,
    State,
    check_integers,
    check_positive,
)
from crfqn.solvers.screened_point import screen_point
from crfqn.solvers.stochastic.state import SGDState

FACTOR = 2.0
GUESS = 16.0  # the rate was 32 to 64 over the mean sum of squares on digits, 128 on CoNLL-2000
MOST_CANDIDATES = 20


class GradientEpochs(Solver):
    """Gradient steps item by item, epoch after epoch, with an evaluation after some of them: SGD and FOBOS.

    A subclass has the settings eta0, evaluate_every and random_state, the `state` that learns, made of the objective,
    the start, a penalty and the share of the items that it is meant for, and `calibrate`.
    """

    eta0: float | None
    evaluate_every: int
    random_state: int
    state: ClassVar[type[MethodState]]

    def calibrate(
        self, objective: Any, penalty: Penalty, origin: SparseWeights, random: np.random.Generator
    ) -> Generator[State, None, float]:
        """Return the learning rate; yields states of samples, marked with their share."""
        raise NotImplementedError

    def steps(self, objective: Objective, penalty: Penalty, start: Point) -> Iterator[State]:
        """Yield the state of the start, then one after every iteration."""
        if not objective.total_weight > 0:
            raise InputError(f"{type(self).__name__} needs at least one item with a weight above 0, got none")
        origin = start.sparse_weights
        learner: Any = objective.state(self.state, origin, penalty)
        yield screen_point(penalty, start).state()
        del start
        random = np.random.default_rng(self.random_state)
        eta0 = self.eta0
        if eta0 is None:
            eta0 = yield from self.calibrate(objective, penalty, origin, random)
        while True:
            for _ in range(self.evaluate_every):
                learner.learn(random.permutation(learner.n_items), eta0)
            yield screen_unless_lost(penalty, objective.at(*learner.weights()))


@dataclass(frozen=True)
class SGDL1(GradientEpochs):
    """Settings of stochastic gradient descent; an iteration is `evaluate_every` epochs and an evaluation.

    Parameters
    ----------
    eta0 : float or None
        The first learning rate, in units of weight a nat of the gradient of one item. None tries rates on a sample.
    calibration_items : int
        Items in that sample, about.
    evaluate_every : int
        Epochs between two evaluations of the objective, each an inference pass and a sweep over all gradients, which
        takes about as long as an epoch. The trace counts both: an iteration is `evaluate_every` + 1 passes.
    random_state : int
        Seed of the order of the items, new in every epoch.

    Notes
    -----
    The quadratic penalty takes part in every step as its proximal map, w / (1 + eta l2 / N), which never overshoots; a
    common scale of all weights makes it lazy. Unpenalised coordinates take plain gradient steps.

    References
    ----------
    Tsuruoka, Tsujii, Ananiadou: Stochastic gradient descent training for l1-regularized log-linear models with
    cumulative penalty. ACL 2009, Figure 2.
    """

    state: ClassVar[type[MethodState]] = SGDState

    eta0: float | None = None
    calibration_items: int = 1000
    evaluate_every: int = 1
    random_state: int = 0

    def __post_init__(self) -> None:
        check_positive(self, "eta0", or_none=True)
        check_integers(self, 1, "calibration_items", "evaluate_every")
        check_integers(self, 0, "random_state")

    def requires(self, objective: Objective, penalty: Penalty) -> Requirements:
        return Requirements(penalty=("is_separable", "is_uniform"), states=(SGDState,))

    def calibrate(
        self,
        objective: Any,
        penalty: Penalty,
        origin: SparseWeights,
        random: np.random.Generator | None = None,
    ) -> Generator[State, None, float]:
        """Return the learning rate whose half and double leave the objective of a sample higher after one pass over it.

        The steps are those that the run would begin with. The first candidate is `GUESS` / (mean over the items of
        their sum of squares), the next are found by doubling or halving until the objective, which has to fall below
        where it started, rises (CRFsuite's way from a fixed guess). Yields the sample's states, marked with its share;
        no chance but the seed's.
        """
        stride = max(1, objective.n_items // self.calibration_items)
        sample = objective.sample(stride) if stride > 1 else objective
        share = sample.total_weight / objective.total_weight
        if share == 0:
            sample, share = objective, 1.0
        before, initial = sample.n_passes, sample.at(*origin)
        online = sample.state(SGDState, origin, penalty, share)
        guess = GUESS / online.item_square if online.item_square > 0 else 1.0
        search = RateSearch(guess, initial.value + penalty.scaled(share).value(*origin))
        del initial
        for _ in range(MOST_CANDIDATES):
            online.restart(origin)
            state = self.trial(online, sample, penalty, share, search.eta)
            if sample is not objective:
                objective.n_passes += share * (sample.n_passes - before)
                before = sample.n_passes
            if share < 1.0:
                yield state
            if search.tell(state.value):
                break
        return search.eta if search.best is None else search.best

    def trial(
        self, online: SGDState, sample: Objective, penalty: Penalty, share: float, eta0: float
    ) -> State:
        """Return the state that one pass over a sample leads to."""
        online.learn(np.random.default_rng(self.random_state).permutation(online.n_items), eta0)
        point = sample.at(*online.weights())
        return State(
            point,
            finite_value(penalty.scaled(share), point),
            np.nan,
            point.coords.size,
            sample_fraction=share,
        )


@dataclass
class RateSearch:
    """Doubling from a guess while the values fall, else halving until they do and for as long; eta : the rate to try
    next; lowest : the least value so far, at first the one to get below; best : the rate that had it."""

    guess: float
    lowest: float
    best: float | None = None
    goes_up: bool = True

    def __post_init__(self) -> None:
        self.eta = self.guess

    def tell(self, value: float) -> bool:
        """Take the value at `eta` and choose the next rate; returns whether the search is over."""
        if value < self.lowest:
            self.best, self.lowest = self.eta, value
        elif self.goes_up and self.best in (None, self.guess):
            self.eta, self.goes_up = self.guess, False
        elif self.best is not None:
            return True
        self.eta *= FACTOR if self.goes_up else 1.0 / FACTOR
        return False


def screen_unless_lost(penalty: Penalty, point: Point) -> State:
    """Return the state at a point, of a full gradient scan unless the weights have run away."""
    if not np.isfinite(finite_value(penalty, point)):
        return State(point, np.inf, np.inf, point.coords.size, is_step=True)
    return screen_point(penalty, point).state(is_step=True)


def finite_value(penalty: Penalty, point: Point) -> float:
    """Return the objective; infinite where weights have run away, which no rate worth having does."""
    if not np.isfinite(point.weights).all():
        return np.inf
    with np.errstate(over="ignore", invalid="ignore"):
        return point.value + penalty.value(point.coords, point.weights)
