"""Block coordinate descent by raw feature (Sokolovska, Lavergne, Cappe and Yvon 2010), as the paper compares with it.

A block is all states' weights of one feature; the edges of a chain are one more. Its update needs inference on the
items that hold the feature only: good where features are rare. The paper (section 6) adds a line search in each update,
without which it does not converge; shrinking (its section 2.3); and second derivatives of at least 1e-10, since without
an L2 penalty a smaller one sends weights far away.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import dataclass

import numpy as np

from crfqn.errors import InputError
from crfqn.papers.zhong2014.feature_bcd_kernels import SweepRule
from crfqn.papers.zhong2014.feature_bcd_state import MOST_BLOCKS, BlockState, BlockSweep
from crfqn.solvers.line_search import ROUNDING, Trial, backtracking, falls_enough
from crfqn.solvers.protocols import (
    Coords,
    Objective,
    Penalty,
    Point,
    Requirements,
    Solver,
    State,
    check_integers,
    check_positive,
    check_shares,
    is_number,
)
from crfqn.solvers.screened_point import screen_point

ORDERS = ("random", "cyclic")


@dataclass(frozen=True)
class FeatureBCD(Solver):
    """Settings of block coordinate descent; an iteration is a sweep over the blocks that have not been shrunk.

    Parameters
    ----------
    order : {"random", "cyclic"}
        Of the blocks in a sweep: a new permutation each time, or features as they come and edges last.
    random_state : int
        Seed of the permutations.
    shrinking : bool
        Leave out the features whose weights are zero and held there: at first by a full gradient scan, then each
        as it is visited. When the others are solved all of them come back.
    shrink_margin : float or None
        A feature of zeros is left out when |g| < (1 - margin) l1 for all its weights; None is the paper's l1 - M / N,
        M the largest violation of the sweep before, N the items.
    cooling : float
        An epoch ends, and the full gradient is scanned, when the violation has fallen to this share of the one that it
        opened with.
    max_sweeps : int
        Or after so many sweeps: a scan costs one pass over the data, a sweep many where features are frequent.
    armijo, backtrack : float
        sigma and beta of the line search.
    floor : float
        The least second derivative (paper: 1e-10).

    Notes
    -----
    The second derivatives leave out the covariance between positions (Sokolovska et al., section 3.3). A penalty of
    groups has one for all weights of a block, the largest: its proximal map knows a common step only. One thread; the
    result depends on the settings alone.

    References
    ----------
    Sokolovska, Lavergne, Cappe, Yvon: Efficient learning of sparse conditional random fields for supervised sequence
    labelling. IEEE Journal of Selected Topics in Signal Processing 4 (6), 2010.
    """

    order: str = "random"
    random_state: int = 0
    shrinking: bool = True
    shrink_margin: float | None = None
    cooling: float = 0.1
    max_sweeps: int = 10
    armijo: float = 0.01
    backtrack: float = 0.5
    floor: float = 1e-10

    def __post_init__(self) -> None:
        if self.order not in ORDERS:
            raise InputError(f"order: expected one of {ORDERS}, got {self.order!r}")
        if not isinstance(self.shrinking, bool):
            raise InputError(f"shrinking: expected True or False, got {self.shrinking!r}")
        check_integers(self, 0, "random_state")
        check_integers(self, 1, "max_sweeps")
        check_shares(self, "armijo", "cooling", "backtrack")
        check_positive(self, "floor")
        margin = self.shrink_margin
        if not (margin is None or (is_number(margin) and 0 <= margin < 1)):
            raise InputError(f"shrink_margin: expected None or a number from 0 to below 1, got {margin!r}")

    def requires(self, objective: Objective, penalty: Penalty) -> Requirements:
        return Requirements(penalty=("is_rowwise",), states=(BlockState,))

    def steps(self, objective: Objective, penalty: Penalty, start: Point) -> Iterator[State]:
        """Yield a state a sweep, and one each time the full gradient is scanned."""
        point, random = start, np.random.default_rng(self.random_state)
        while True:
            view = screen_point(penalty, point)
            initial = view.state()
            yield initial
            loss = objective.state(BlockState, point)
            blocks = loss.blocks_of(view.coords) if self.shrinking else loss.blocks
            del start, point, view  # their scores and residuals are as large as the data
            n_moved, n_failed = yield from self.epoch(penalty, loss, blocks, initial.violation, random)
            if n_moved == 0:
                yield State(**{**vars(initial), "is_final": True, "has_failed": n_failed > 0})
                return
            start = point = loss.point()

    def epoch(
        self, penalty: Penalty, loss: BlockState, blocks: Coords, initial: float, random: np.random.Generator
    ) -> Generator[State, None, tuple[int, int]]:
        """Sweep over blocks until the violation has fallen far enough below the `initial` one; yields a state a sweep.

        Returns the number of blocks that have moved in all sweeps, and of those that could not in the last one.
        """
        violation, n_moved = initial, 0
        for _ in range(self.max_sweeps):
            if self.order == "random":
                blocks = random.permutation(blocks)
            sweep = self.sweep(penalty, loss, blocks, self.rule(loss, violation))
            if sweep.n_moved == 0:
                break
            n_moved, violation = n_moved + sweep.n_moved, float(sweep.violations.max())
            point = loss.objective.at(*loss.weights)
            value = loss.value + penalty.value(point.coords, point.weights)
            yield State(point, value, violation, loss.coords(blocks).size)
            del point
            if self.shrinking:
                blocks = blocks[sweep.is_kept]
            if violation <= self.cooling * initial or blocks.size == 0:
                break
        return n_moved, sweep.n_failed

    def rule(self, loss: BlockState, violation: float) -> SweepRule:
        """Return the constants of a sweep, `violation` being the largest of the one before."""
        share = 0.0 if self.shrink_margin is None else self.shrink_margin
        slack = violation / loss.objective.n_items if self.shrink_margin is None else 0.0
        return SweepRule(self.armijo, self.backtrack, self.floor, share, slack, ROUNDING * loss.rounding)

    def sweep(self, penalty: Penalty, loss: BlockState, blocks: Coords, rule: SweepRule) -> BlockSweep:
        """Update the blocks one after the other."""
        parts = [BlockSweep(np.empty(0), np.empty(0, bool), 0, 0)]
        for batch in np.split(blocks, range(MOST_BLOCKS, blocks.size, MOST_BLOCKS)):
            if penalty.is_separable:  # a coordinate each: then a sweep is compiled
                parts.append(loss.descend(batch, penalty, rule))
            else:
                parts += [self.update(penalty, loss, int(block), rule) for block in batch]
        violations, are_kept, n_moved, n_failed = zip(*parts, strict=True)
        return BlockSweep(np.concatenate(violations), np.concatenate(are_kept), sum(n_moved), sum(n_failed))

    def update(self, penalty: Penalty, loss: BlockState, block: int, rule: SweepRule) -> BlockSweep:
        """Update one block, under any penalty that has a proximal map.

        With the largest curvature h of the block, d = prox(w - g / h, 1 / h) - w, and the Armijo rule along d.
        """
        coords, w = loss.coords(np.array([block])), loss.weights_of(block)
        g, h = loss.derivatives(block)
        local, before = penalty.at(coords), penalty.value(coords, w)
        least = (1.0 - rule.shrink_share) * local.threshold - rule.shrink_slack
        is_kept = bool(np.any(local.dual_norm(w, g) > least))
        curvature = max(float(h.max()), self.floor)
        d = penalty.prox(coords, w - g / curvature, 1.0 / curvature) - w
        slope = float(g @ d) + penalty.value(coords, w + d) - before

        def attempt(step: float) -> Trial[float] | None:
            if not -step * slope > rule.noise:
                return None
            change = loss.try_move(block, d, step) + penalty.value(coords, w + step * d) - before
            return Trial(step, falls_enough(-change, step * slope, self.armijo))

        is_promising, has_moved = is_kept and -slope > rule.noise, False
        if is_promising:
            has_moved = backtracking(attempt, 1.0, self.backtrack).outcome is not None
            (loss.accept if has_moved else loss.reject)()
        violation = local.violation(w, g).max(keepdims=True, initial=0.0)
        return BlockSweep(violation, np.array([is_kept]), int(has_moved), int(is_promising and not has_moved))
