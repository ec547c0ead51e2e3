"""Block coordinate descent over rows: Algorithm 1 of Blondel, Seki and Uehara (2013).

A sweep visits rows of the weights, all states of one feature; the objective updates each of them (Algorithms 2 and 3)
and keeps the margins of the positions up to date. Two variants: steps from the generalised Hessian with a line search,
rows in cycles (Tseng and Yun 2009), and constant steps, rows drawn at random (Richtarik and Takac 2012).

With shrinking a sweep visits only the rows that may move, until they are solved well enough; then all of them again.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from crfqn.errors import InputError
from crfqn.result import Status
from crfqn.solvers.coordinate.row_state import AndersonHistory, LineSearch, RowBlocks
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
    min_curvature_ratio : float within (0, 1]
        Of the line search: L_j of a state is its own second derivative, but not less than this ratio of the largest of
        its row; 1 is the paper's choice. Below 1 the weights of rare labels take longer steps.
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
    min_curvature_ratio: float = 0.03
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
            ("min_curvature_ratio", 0 < self.min_curvature_ratio <= 1), ("free_share", 0 <= self.free_share <= 1)
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
        blocks: RowBlocks = objective.state(RowBlocks, start)
        del start
        blocks.has_papers_constants = self.step == "paper constant"
        has_search = self.step == "line search"
        search = LineSearch(self.sigma, self.omega, self.min_curvature_ratio) if has_search else None
        history = AndersonHistory(blocks, self.memory + 1) if self.memory else None
        random, first_total, is_rule_met = np.random.default_rng(self.seed), np.nan, False
        rows, state = self.scan(blocks, penalty, is_beginning=True)
        yield state
        while True:
            # An epoch: its rows, line searches in a new order, are swept until the violation has fallen.
            blocks.store(rows)
            if has_search and self.shuffle:
                rows = blocks.shuffled(rows, random)
            if history is not None:
                history.restart(blocks)
            epoch_total = np.nan
            for sweep in range(1, self.max_sweeps + 1):
                # Update the rows one after another (Algorithm 2), in a cycle or uniformly at random (section 4.4).
                if has_search:
                    order = blocks.interleaved(rows, penalty, self.free_share)
                else:
                    order = random.choice(rows, rows.size)
                margins_out = None if history is None else history.next_margins
                violations, kkt_excess = blocks.sweep(order, penalty, search, margins_out)
                largest = float(violations.max(initial=0.0))
                total = float(violations.sum()) if has_search else largest
                epoch_total = total if sweep == 1 else epoch_total
                if rows.size == blocks.n_rows:  # equation 10 is for sweeps over all rows
                    first_total = total if np.isnan(first_total) else first_total
                    is_rule_met = self.tau is not None and total < self.tau * first_total
                if self.shrink:  # section 5.2.4, the bound being that of a mean over the items
                    is_inside = kkt_excess < -largest / objective.total_weight
                    rows = rows[~(is_inside if order is rows else np.isin(rows, order[is_inside]))]
                # After `memory` sweeps go to the point that they lead to, if the objective is lower there.
                value = blocks.value(penalty)
                if history is not None:
                    history.add(blocks)
                    if sweep % self.memory == 0:
                        extrapolated = history.extrapolated(blocks)
                        if extrapolated is not None and (lower := extrapolated.value(penalty)) < value:
                            blocks, value = extrapolated, lower
                        history.restart(blocks)
                yield State(blocks.point(), value, largest, rows.size)
                if is_rule_met or total <= self.cooling * epoch_total:
                    break
            # A cycle that met no violation changed nothing.
            end = Status.STALLED if epoch_total == 0.0 and has_search else None
            if is_rule_met:
                end = Status.RULE_MET
            rows, state = self.scan(blocks, penalty)
            yield replace(state, end=end)
            if end is not None:
                return

    def scan(
        self, blocks: RowBlocks, penalty: Penalty, is_beginning: bool = False
    ) -> tuple[NDArray[np.int64], State]:
        """Scan the full gradient: the rows that the next epoch visits, and a state with a certificate."""
        view = screen_point(penalty, blocks.scored_point())
        features, row_of = np.unique(view.coords % blocks.n_rows, return_inverse=True)
        state = replace(view.state(), point=blocks.point(), n_active=features.size)
        if not self.shrink or self.tau is not None:
            return np.arange(blocks.n_rows), state
        n = max(FEWEST_FIRST, int(FIRST_SHARE * features.size))
        if is_beginning and n < features.size and not blocks.row_weights.any():
            # Those with the largest dual norms.
            excess = np.maximum(np.abs(view.g) - penalty.l1_of(view.coords), 0.0)
            is_linf = penalty.rows(blocks.n_rows, blocks.row_weights.shape[1]).strengths.is_linf
            norms = np.bincount(row_of, excess if is_linf else excess * excess)
            features = np.sort(features[np.argpartition(norms, features.size - n)[-n:]])
        return features, state
