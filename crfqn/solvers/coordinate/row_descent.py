"""Block coordinate descent over rows: Algorithm 1 of Blondel, Seki and Uehara (2013).

A sweep visits rows of the weights; a row has the weights of all states for one feature. Each visit updates the row
(Algorithms 2 and 3) and the margins of the positions. There are two variants: a line search with steps from the
generalised Hessian, rows in cycles (Tseng and Yun 2009); and constant steps, rows drawn at random (Richtarik and Takac
2012). With shrinking, sweeps leave out rows that stay zero; a scan of the full gradient then visits all rows again.
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

STEP_RULES = ("line search", "constant", "paper constant")
# The first epoch visits this share of the rows that may leave zero, those with the largest gradients, or this number of
# rows if it is larger: small rows often stay zero after the large ones have moved (docs/mechanisms.md).
FIRST_EPOCH_SHARE, FIRST_EPOCH_MIN_ROWS = 0.25, 2000


@dataclass(frozen=True)
class RowDescent(Solver):
    """Settings of block coordinate descent over rows.

    Parameters
    ----------
    step : {"line search", "constant", "paper constant"}
        Choice of L_j in Algorithm 2. "line search": second derivatives (equation 6) with backtracking on equation 7,
        rows in cycles. "constant": the smallest known Lipschitz constant K_j of the row's gradient, without a search,
        rows uniformly at random. "paper constant": the same with the paper's K_j (appendix A: 4 (K - 1) / n sum_i
        x_ij^2 for the multiclass squared hinge).
    sigma, omega : float within (0, 1)
        Of the line search: the required share of the predicted decrease, and the backtracking factor.
    min_curvature_ratio : float within (0, 1]
        Of the line search: L_j of a state is its own second derivative, but not less than this ratio of the largest of
        its row; 1 is the paper's choice. Below 1 the weights of rare labels take longer steps.
    free_share : float within [0, 1]
        Of the line search: each sweep visits the unpenalised rows, the intercepts, several times at equal distances.
        These visits read up to this share of the entries of all other rows. 0 visits them once a sweep.
    tau : float or None
        Stop by equation 10: the sum (cyclic) or the maximum (random) of the violations in a sweep over all rows is
        below tau times that of the first sweep. None leaves the end to the certificate.
    shrink : bool
        Leave out zero rows whose gradient is below the penalty's bound by more than the largest violation of the last
        sweep over the total weight of the items (Yuan et al. 2010; section 5.2.4). The first epoch from zero visits
        a quarter of the rows that may move, those with the largest gradients, if there are thousands.
    cooling : float within (0, 1)
        An epoch ends, and the full gradient is scanned for a certificate and for rows to visit, when the violation has
        fallen to this share of that of the epoch's first sweep.
    max_sweeps : int
        Maximum number of sweeps of an epoch.
    memory : int
        Extrapolate the fixed point of the sweeps after this number of sweeps of an epoch (Anderson acceleration;
        Bertrand and Massias 2021), and continue from it if the objective is lower there. 0 is the paper's method.
    shuffle : bool
        Of the line search: a new random order of the rows in each epoch. False keeps the order of the features.
    seed : int
        Seed of the random orders.

    Notes
    -----
    Threads share the positions of a row; the updates, and so the result, are those of one thread.
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
        if self.step not in STEP_RULES:
            raise InputError(f"step: expected one of {STEP_RULES}, got {self.step!r}")
        check_shares(self, "sigma", "omega", "cooling", *(() if self.tau is None else ("tau",)))
        for name, is_within in (
            ("min_curvature_ratio", 0 < self.min_curvature_ratio <= 1), ("free_share", 0 <= self.free_share <= 1)
        ):  # fmt: skip
            if not is_within:
                raise InputError(f"{name}: expected a share up to 1, got {getattr(self, name)!r}")
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
            # An epoch sweeps over its rows until the violation has fallen.
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
                if rows.size == blocks.n_rows:  # equation 10 compares sweeps over all rows
                    first_total = total if np.isnan(first_total) else first_total
                    is_rule_met = self.tau is not None and total < self.tau * first_total
                if self.shrink:  # section 5.2.4, whose loss is a mean over the items
                    is_inside = kkt_excess < -largest / objective.total_weight
                    rows = rows[~(is_inside if order is rows else np.isin(rows, order[is_inside]))]
                # Anderson acceleration: every `memory` sweeps, extrapolate their limit.
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
            # A cycle without a violation changes nothing.
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
        """Scan the full gradient; return the rows that the next epoch visits, and a state with a certificate."""
        view = screen_point(penalty, blocks.scored_point())
        features, row_of = np.unique(view.coords % blocks.n_rows, return_inverse=True)
        state = replace(view.state(), point=blocks.point(), n_active=features.size)
        if not self.shrink or self.tau is not None:
            return np.arange(blocks.n_rows), state
        n = max(FIRST_EPOCH_MIN_ROWS, int(FIRST_EPOCH_SHARE * features.size))
        if is_beginning and n < features.size and not blocks.row_weights.any():
            # Choose the rows whose gradients have the largest dual norms.
            excess = np.maximum(np.abs(view.g) - penalty.l1_of(view.coords), 0.0)
            is_linf = penalty.rows(blocks.n_rows, blocks.row_weights.shape[1]).strengths.is_linf
            norms = np.bincount(row_of, excess if is_linf else excess * excess)
            features = np.sort(features[np.argpartition(norms, features.size - n)[-n:]])
        return features, state
