"""Block coordinate descent over rows: Algorithm 1 of Blondel, Seki and Uehara (2013).

A sweep visits rows of the weights, all states of one feature; the objective updates each of them (Algorithms 2 and 3)
and keeps the margins of the positions up to date. Two variants: steps from the generalised Hessian with a line search,
rows in cycles (Tseng and Yun 2009), and constant steps, rows drawn at random (Richtarik and Takac 2012).

With shrinking a sweep visits only the rows that may move, until they are solved well enough; then all of them again.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from crfqn.errors import InputError
from crfqn.solvers.coordinate.row_state import LineSearch, RowBlocks
from crfqn.solvers.protocols import (
    Objective,
    Penalty,
    Point,
    Requirements,
    Solver,
    State,
    check_integers,
    check_shares,
)
from crfqn.solvers.screened_point import screen_point

STEPS = ("line search", "constant", "paper constant")
# Of the rows that may leave zero, and how many at least, the first epoch visits: large rows explain what small ones
# seemed to. 20 newsgroups (squared hinge, lambda = 1e-4, one core) to 1e-3 in 0.9 s instead of 1.6.
FIRST_SHARE, FEWEST_FIRST = 0.25, 2000


@dataclass(frozen=True)
class RowDescent(Solver):
    """Settings of block coordinate descent over rows.

    Parameters
    ----------
    step : {"line search", "constant", "paper constant"}
        L_j of Algorithm 2: second derivatives (equation 6) with backtracking on equation 7, rows in cycles; or the
        Lipschitz constant K_j of the row's gradient, without search, rows uniformly at random: the least that is
        known, or the paper's (appendix A: 4 (K - 1) / n sum_i x_ij^2 for the multiclass squared hinge).
    sigma, omega : float within (0, 1)
        Of the line search: the share of the predicted decrease that is asked for, and the backtracking factor.
    least_share : float within (0, 1]
        Of the line search: each state of a row has its own second derivative for L_j, but at least this share of the
        largest, which is the paper's for all (1). Rare labels then move as far as common ones.
    free_share : float within [0, 1]
        Of the line search: rows without penalty, the intercepts, are visited several times a sweep, evenly, so often
        that they take up to this share of the entries of all others. They depend on every row; 0 visits them once.
    tau : float or None
        Stop by equation 10: the sum (cyclic) or the largest (random) of the violations met in a sweep over all rows
        is below tau times that of the first sweep. None leaves the end to the certificate.
    shrink : bool
        Leave out zero rows that are inside the penalty's bound by more than the last sweep's largest violation over
        the number of items, weights counted (Yuan et al. 2010; section 5.2.4). And begin from zero with the rows of
        the largest gradients, a quarter of those that may move, where these are many.
    cooling : float within (0, 1)
        The full gradient is scanned, for a certificate and for rows to visit, when the violation has fallen to this
        share of the epoch's first sweep.
    max_sweeps : int
        Or after so many sweeps.
    memory : int
        After as many sweeps of an epoch their fixed point is extrapolated from them (Anderson acceleration; Bertrand
        and Massias 2021), and taken where the objective is lower there. 0 is the paper's method.
    shuffle : bool
        Of the line search: a new random order of the rows in each epoch, which takes half to two thirds of the
        sweeps (in each sweep it would leave nothing to extrapolate). False keeps that of the features.
    seed : int
        Of random orders.

    Notes
    -----
    Threads share out the positions of a row: the updates, and so the result, are those of one thread.
    """

    step: str = "line search"
    sigma: float = 0.01
    omega: float = 0.5
    least_share: float = 0.03
    free_share: float = 0.25
    tau: float | None = None
    shrink: bool = True
    cooling: float = 0.1
    max_sweeps: int = 10
    memory: int = 5
    shuffle: bool = True
    seed: int = 0

    def __post_init__(self) -> None:
        if self.step not in STEPS:
            raise InputError(f"step: expected one of {STEPS}, got {self.step!r}")
        check_shares(self, "sigma", "omega", "cooling", *(() if self.tau is None else ("tau",)))
        for name, is_within in (
            ("least_share", 0 < self.least_share <= 1), ("free_share", 0 <= self.free_share <= 1)
        ):  # fmt: skip
            if not is_within:
                raise InputError(f"{name}: expected a share, up to 1, got {getattr(self, name)!r}")
        check_integers(self, 1, "max_sweeps")
        check_integers(self, 0, "memory", "seed")
        if self.memory == 1:
            raise InputError("memory: expected 0 or an integer >= 2, got 1")

    def requires(self, objective: Objective, penalty: Penalty) -> Requirements:
        return Requirements(penalty=("is_row_separable", "is_uniform"), states=(RowBlocks,))

    def steps(self, objective: Objective, penalty: Penalty, start: Point) -> Iterator[State]:
        """Yield a state for each sweep of Algorithm 1, and one for each full gradient scan."""
        run = _Run(self, objective, penalty, start)
        del start
        yield run.screened()
        while not run.has_ended:
            run.begin_epoch()
            while not run.has_cooled:
                yield run.sweep()
            yield run.screened()


class _Run:
    """Rows of one run, which of them it visits, and the violations that its sweeps have met: `total`, that of equation
    10, and `largest`, of equation 9, both of the last sweep."""

    def __init__(self, settings: RowDescent, objective: Objective, penalty: Penalty, start: Point) -> None:
        self.settings, self.objective = settings, objective
        self.penalty: Any = penalty  # of rows, which the state checks
        self.blocks, self.value = objective.state(RowBlocks, start), np.nan
        self.blocks.has_papers_constants = settings.step == "paper constant"
        self.is_linf = penalty.rows(self.blocks.n_rows, self.blocks.row_weights.shape[1]).strengths.is_linf
        self.history = self.blocks.history(settings.memory + 1) if settings.memory else None
        self.everything = self.rows = np.arange(self.blocks.n_rows)
        self.random = np.random.default_rng(settings.seed)
        has_search = settings.step == "line search"
        self.search = LineSearch(settings.sigma, settings.omega, settings.least_share) if has_search else None
        self.total = self.largest = np.nan
        # Violations of the epoch's first sweep, and of the first over all rows.
        self.epoch_total = self.first_total = np.nan
        self.n_sweeps = 0  # of this epoch
        self.is_rule_met = self.has_ended = False

    def screened(self) -> State:
        """Scan the full gradient: a certificate, and the rows that the next epoch visits."""
        view = screen_point(self.penalty, self.blocks.scored_point())
        features, row_of = np.unique(view.coords % self.blocks.n_rows, return_inverse=True)
        self.rows = features
        if not self.settings.shrink or self.settings.tau is not None:
            self.rows = self.everything
        elif self.n_sweeps == 0 and not self.blocks.row_weights.any():
            n = max(FEWEST_FIRST, int(FIRST_SHARE * features.size))
            if n < features.size:  # those with the largest dual norms
                excess = np.maximum(np.abs(view.g) - self.penalty.l1_of(view.coords), 0.0)
                norms = np.bincount(row_of, excess if self.is_linf else excess * excess)
                self.rows = np.sort(features[np.argpartition(norms, features.size - n)[-n:]])
        # A cycle that met no violation changed nothing.
        is_still = self.n_sweeps > 0 and self.epoch_total == 0.0 and self.search is not None
        self.has_ended = self.is_rule_met or is_still
        state = view.state(meets_rule=self.is_rule_met, is_final=is_still)
        return replace(state, point=self.blocks.point(), n_active=features.size)

    def begin_epoch(self) -> None:
        """Take in the rows of an epoch, line searches in a new order."""
        self.blocks.store(self.rows)
        self.n_sweeps, self.epoch_total = 0, np.nan
        if self.search is not None and self.settings.shuffle:
            self.rows = self.blocks.shuffled(self.rows, self.random)
        if self.history is not None:
            self.history.restart(self.blocks)

    @property
    def has_cooled(self) -> bool:
        """Whether the violation has fallen far enough for a scan, or the sweeps are used up."""
        settings = self.settings
        is_low = self.n_sweeps > 0 and self.total <= settings.cooling * self.epoch_total
        return self.is_rule_met or is_low or self.n_sweeps >= settings.max_sweeps

    def sweep(self) -> State:
        """Update rows one after another (Algorithm 2), take down the violations, and leave out solved rows."""
        if self.search is None:  # uniformly at random, or in a cycle (section 4.4)
            order = self.random.choice(self.rows, self.rows.size)
        else:
            order = self.blocks.interleaved(self.rows, self.penalty, self.settings.free_share)
        margins_out = None if self.history is None else self.history.next_margins
        swept = self.blocks.sweep(order, self.penalty, self.search, margins_out)
        self.n_sweeps += 1
        self.largest = float(swept.violations.max(initial=0.0))
        self.total = float(swept.violations.sum()) if self.search is not None else self.largest
        if self.n_sweeps == 1:
            self.epoch_total = self.total
        if self.rows.size == self.everything.size:  # equation 10 is for sweeps over all rows
            self.first_total = self.total if np.isnan(self.first_total) else self.first_total
            tau = self.settings.tau
            self.is_rule_met = tau is not None and self.total < tau * self.first_total
        if self.settings.shrink:  # section 5.2.4, the bound being that of a mean over the items
            is_inside = swept.kkt_excess < -self.largest / self.objective.total_weight
            is_left_out = is_inside if order is self.rows else np.isin(self.rows, order[is_inside])
            self.rows = self.rows[~is_left_out]
        self.extrapolate()
        return State(self.blocks.point(), self.value, self.largest, self.rows.size)

    def extrapolate(self) -> None:
        """After `memory` sweeps go to the point that they lead to, if the objective is lower there."""
        self.value = self.blocks.value(self.penalty)
        if self.history is None:
            return
        self.history.add(self.blocks)
        if self.n_sweeps % self.settings.memory:
            return
        blocks = self.history.extrapolated(self.blocks)
        if blocks is not None:
            value = blocks.value(self.penalty)
            if value < self.value:
                self.blocks, self.value = blocks, value
        self.history.restart(self.blocks)
