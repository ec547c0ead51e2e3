"""Stochastic gradient descent with a cumulative L1 penalty (Tsuruoka, Tsujii and Ananiadou 2009).

A step is along the negative gradient of a single item, with the rate eta_k = eta0 / (1 + k / N) of the paper's
comparison (section 6). The part of the accrued penalty that a weight has not yet received then moves it towards 0,
where it stops. The method uses one core; it is fast in the first passes and slow near the optimum.
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

RATE_FACTOR = 2.0  # factor between two candidates of the learning rate
# The first candidate of the learning rate, in units of 1 / (mean sum of squares of an item). The best rate was 32 to
# 128 on small sets.
FIRST_RATE = 16.0
MAX_CANDIDATES = 20  # rates that are tried; a guard against searches without end


class GradientEpochs(Solver):
    """Base of SGD and FOBOS: epochs of gradient steps on single items, with an evaluation after each `evaluate_every`.

    A subclass has the settings eta0, evaluate_every and random_state, the method `calibrate`, and `state`, the class of
    the weights, whose arguments are the objective, the start, the penalty and the fraction of all items.
    """

    eta0: float | None
    evaluate_every: int
    random_state: int
    state: ClassVar[type[MethodState]]

    def calibrate(
        self, objective: Objective, penalty: Penalty, origin: SparseWeights, random: np.random.Generator
    ) -> Generator[State, None, float]:
        """Return the learning rate; yield states of samples, with their `sample_fraction`."""
        raise NotImplementedError

    def steps(self, objective: Objective, penalty: Penalty, start: Point) -> Iterator[State]:
        """Yield the state of the start, then one after every iteration."""
        if not objective.total_weight > 0:
            raise InputError(
                f"{type(self).__name__} expected at least one item with a weight above 0, got none"
            )
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
            yield screen_if_finite(penalty, objective.at(*learner.weights()))


@dataclass(frozen=True)
class SGDL1(GradientEpochs):
    """Settings of stochastic gradient descent; an iteration is `evaluate_every` epochs and an evaluation.

    Parameters
    ----------
    eta0 : float > 0 or None
        The first learning rate, in units of weight per unit of gradient. None chooses the best one on a sample.
    calibration_items : int >= 1
        The approximate number of items in that sample.
    evaluate_every : int >= 1
        The number of epochs between two evaluations of the objective. An evaluation is an inference pass and a full
        gradient scan, and takes about as long as an epoch; an iteration counts as `evaluate_every` + 1 passes.
    random_state : int >= 0
        The seed of the order of the items, which differs from epoch to epoch.

    Notes
    -----
    A step includes the proximal map of the quadratic penalty, w / (1 + eta l2 / N), which is applied lazily by a common
    scale of all weights. Unpenalised coordinates take plain gradient steps.

    References
    ----------
    Tsuruoka, Tsujii, Ananiadou: Stochastic gradient descent training for l1-regularized log-linear models with
    cumulative penalty. ACL 2009, Figure 2.
    """

    state: ClassVar[type[MethodState]] = SGDState
    needs: ClassVar[Requirements] = Requirements(penalty=("is_separable", "is_uniform"), states=(SGDState,))

    eta0: float | None = None
    calibration_items: int = 1000
    evaluate_every: int = 1
    random_state: int = 0

    def __post_init__(self) -> None:
        check_positive(self, "eta0", or_none=True)
        check_integers(self, 1, "calibration_items", "evaluate_every")
        check_integers(self, 0, "random_state")

    def calibrate(
        self,
        objective: Objective,
        penalty: Penalty,
        origin: SparseWeights,
        random: np.random.Generator | None = None,
    ) -> Generator[State, None, float]:
        """Return the learning rate with the lowest objective of a sample after one pass over it.

        The first candidate is `FIRST_RATE` / (mean over the items of their sum of squares). The rate is doubled or
        halved until the objective is below that of the start and increases again, as in CRFsuite. Yields the states of
        the sample, with its `sample_fraction`. The order of the items is that of `random_state`.
        """
        stride = max(1, objective.n_items // self.calibration_items)
        sample = objective.sample(stride) if stride > 1 else objective
        share = sample.total_weight / objective.total_weight
        if share == 0:
            sample, share = objective, 1.0
        before, initial = sample.n_passes, sample.at(*origin)
        online = sample.state(SGDState, origin, penalty, share)
        guess = FIRST_RATE / online.item_square if online.item_square > 0 else 1.0
        search = RateSearch(guess, initial.value + penalty.scaled(share).value(*origin))
        del initial
        for _ in range(MAX_CANDIDATES):
            online.restart(origin)
            state = self.trial(online, sample, penalty, share, search.eta)
            if sample is not objective:
                objective.n_passes += share * (sample.n_passes - before)
                before = sample.n_passes
            if share < 1.0:
                yield state
            if search.update(state.value):
                break
        return search.eta if search.best is None else search.best

    def trial(
        self, online: SGDState, sample: Objective, penalty: Penalty, share: float, eta0: float
    ) -> State:
        """Return the state after one pass over a sample."""
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
    """Search of the learning rate: doubling from a guess while the values decrease, or else halving.

    lowest : the smallest value so far, at first that of the start
    best : the rate of this value, None before a value below that of the start
    eta : the rate to try next
    """

    guess: float
    lowest: float
    best: float | None = None
    goes_up: bool = True

    def __post_init__(self) -> None:
        self.eta = self.guess

    def update(self, value: float) -> bool:
        """Take the value at `eta` and choose the next rate; return whether the search has ended."""
        if value < self.lowest:
            self.best, self.lowest = self.eta, value
        elif self.goes_up and self.best in (None, self.guess):
            self.eta, self.goes_up = self.guess, False
        elif self.best is not None:
            return True
        self.eta *= RATE_FACTOR if self.goes_up else 1.0 / RATE_FACTOR
        return False


def screen_if_finite(penalty: Penalty, point: Point) -> State:
    """Return the state at a point after a full gradient scan; without a scan if the objective is not finite."""
    if not np.isfinite(finite_value(penalty, point)):
        return State(point, np.inf, np.inf, point.coords.size, is_step=True)
    return screen_point(penalty, point).state(is_step=True)


def finite_value(penalty: Penalty, point: Point) -> float:
    """Return the objective, penalty included; infinite if a weight is not finite."""
    if not np.isfinite(point.weights).all():
        return np.inf
    with np.errstate(over="ignore", invalid="ignore"):
        return point.value + penalty.value(point.coords, point.weights)
