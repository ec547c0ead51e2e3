"""Block coordinate descent by raw feature (Sokolovska, Lavergne, Cappe and Yvon 2010), as the paper compares with it.

A block is all states' weights of one feature; the edges of a chain are one more. Its update repeats inference only for
the items that have the feature, in a chain on the affected segment (`feature_bcd_kernels.py`), and computes the change
of their loss: efficient if features are rare. The paper (section 6) adds a line search in each update, without which it
does not converge; shrinking (its section 2.3); and a lower bound of 1e-10 on second derivatives, since without an L2
penalty smaller ones make weights very large. Shapes: I items, B blocks, F features, K states, E edges.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from crfqn.arrays import Coords, SparseWeights, Vector
from crfqn.errors import InputError, UnsupportedObjectiveError
from crfqn.kernels.rows import LANES, aligned_rows
from crfqn.kernels.sparse import found_in, union
from crfqn.objectives.linear.feature_map import CoordinateParts
from crfqn.objectives.losses.likelihood import LikelihoodEvaluation
from crfqn.objectives.losses.score_loss import StructuredLoss
from crfqn.objectives.objective import MethodState
from crfqn.objectives.part import PartPoint
from crfqn.papers.zhong2014.feature_bcd_kernels import (
    LOG_Z,
    OBSERVED,
    OUTSIDE,
    WEIGHT,
    ChainState,
    SweepRule,
    TreeState,
    accept_block,
    block_slopes,
    load_chains,
    load_trees,
    sweep,
    try_block,
)
from crfqn.parameters import is_number
from crfqn.result import Status
from crfqn.solvers.coordinate.row_kernels import list_weights
from crfqn.solvers.line_search import VALUE_ROUNDING, HiddenDecrease, backtracking
from crfqn.solvers.protocols import (
    Objective,
    Penalty,
    Point,
    Requirements,
    Solver,
    State,
    check_integers,
    check_positive,
    check_shares,
)
from crfqn.solvers.screened_point import screen_point
from crfqn.structures.chain import Chain
from crfqn.structures.taxonomy import Taxonomy
from crfqn.time_limit import check_time

BLOCK_ORDERS = ("random", "cyclic")
MAX_BLOCKS_PER_CALL = 512  # blocks of one kernel call, which cannot be interrupted


class BlockSweep(NamedTuple):
    """Findings of a sweep over B blocks.

    violations, is_kept : (B,), the largest KKT violation of each before its update; whether shrinking keeps it
    n_moved, n_failed : blocks that have moved, and blocks whose line search has failed
    """

    violations: Vector
    is_kept: NDArray[np.bool_]
    n_moved: int
    n_failed: int


class BlockState(MethodState):
    """The loss of a likelihood, from a point on, while blocks of its weights move.

    Weights of features that have been moved, or are not zero, are kept in rows, (features, K). Memory: 4 arrays of
    positions x states for chains, 2 for taxonomies. Passes are counted by messages: a forward (or downward) message of
    one position is half of its inference, a backward (upward) one the other half.
    """

    def __init__(self, owner: Objective, start: Point) -> None:
        point: Any = start.whole
        loss: Any = point.part.loss  # a likelihood: `check` ensures it
        self.objective = owner
        self.n_features, self.n_states = owner.n_features, owner.n_states
        structure = loss.structure
        self.blocks = np.arange(self.n_features + (loss.n_edges > 0))  # the edges are the last
        self.chain = prepare_chain(point, loss, structure) if isinstance(structure, Chain) else None
        self.tree = prepare_tree(point, loss, structure) if isinstance(structure, Taxonomy) else None
        split = CoordinateParts.from_coords(point.coords, self.n_states, self.n_features)
        self.features, row = np.unique(split.features, return_inverse=True)
        self.nodes, self.edges = np.zeros((self.features.size, self.n_states)), np.zeros(loss.n_edges)
        self.nodes[row, split.states] = point.weights[: row.size]
        self.edges[split.edges] = point.weights[row.size :]
        self._possible = None if owner.support.is_everything else owner.support.coords()
        self._move: tuple[int, Vector, float] | None = None
        self._count()

    @classmethod
    def check(cls, objective: Objective) -> None:
        """Raise UnsupportedObjectiveError for other losses than likelihoods of chains and taxonomies."""
        loss = objective.first.loss
        is_likelihood = loss.has_marginals and loss.is_convex
        if not (is_likelihood and isinstance(loss.structure, (Chain, Taxonomy))):
            raise UnsupportedObjectiveError(
                "feature blocks need a likelihood of chains or taxonomies, its labels known; "
                f"the loss is {type(loss).__name__}"
            )

    def blocks_of(self, coords: Coords) -> Coords:
        """Return the blocks that hold some of the coordinates, ascending."""
        n_nodes = np.searchsorted(coords, self.n_features * self.n_states)
        blocks = np.unique(coords[:n_nodes] % max(self.n_features, 1))
        return np.append(blocks, self.n_features) if n_nodes < coords.size else blocks

    def coords(self, blocks: Coords) -> Coords:
        """Return the coordinates of the blocks, one block after the other."""
        sizes = np.where(blocks < self.n_features, self.n_states, self.edges.size)
        within = np.arange(sizes.sum()) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        block = np.repeat(blocks, sizes)
        is_node = block < self.n_features
        return np.where(is_node, within * self.n_features + block, self.n_states * self.n_features + within)

    def are_possible(self, coords: Coords) -> NDArray[np.bool_]:
        """Return which coordinates are in the objective's support."""
        return np.ones(coords.size, bool) if self._possible is None else found_in(self._possible, coords)[1]

    def places(self, blocks: Coords) -> Coords:
        """Return the rows of blocks in `nodes`, where they have one from now on, and -1 for the edges."""
        features = blocks[blocks < self.n_features]
        if not found_in(self.features, features)[1].all():
            known, rows, self.features = self.features, self.nodes, union(self.features, np.sort(features))
            self.nodes = np.zeros((self.features.size, self.n_states))
            self.nodes[found_in(self.features, known)[0]] = rows
        return np.where(blocks < self.n_features, found_in(self.features, blocks)[0], -1)

    @property
    def weights(self) -> SparseWeights:
        """The weights that are not 0."""
        coords, weights = list_weights(self.features, self.n_features, self.nodes)
        edges = np.flatnonzero(self.edges)
        behind = self.n_features * self.n_states + edges
        return SparseWeights(np.append(coords, behind), np.append(weights, self.edges[edges]))

    def weights_of(self, block: int) -> Vector:
        """Return all weights of a block, zeros included."""
        return self._row(block).copy()

    def _row(self, block: int) -> Vector:
        """Return the weights of a block, in their own memory."""
        (place,) = self.places(np.array([block]))
        return self.nodes[place] if place >= 0 else self.edges

    @property
    def _state(self) -> ChainState | TreeState:
        state = self.chain or self.tree
        assert state is not None
        return state

    @property
    def value(self) -> float:
        """The loss, in nats."""
        return float(self._state.items[WEIGHT] @ self.item_losses)

    @property
    def item_losses(self) -> Vector:
        """-log P(y_i | x_i), (I,), in nats."""
        return self._state.items[LOG_Z] - self._state.items[OBSERVED]

    @property
    def rounding(self) -> float:
        """The root of the sum of squares of the terms of the loss: roundings of the items are independent, so the
        rounding of a change of the loss is that of this number."""
        weight, log_z, observed = self._state.items[[WEIGHT, LOG_Z, OBSERVED]]
        return float(np.linalg.norm(weight * (np.abs(log_z) + np.abs(observed))))

    def point(self) -> Point:
        """Return the point at the present weights, from scratch."""
        return self.objective.at(*self.weights)

    def derivatives(self, block: int) -> tuple[Vector, Vector]:
        """Return gradient and curvature of a block's weights; the gradient is 0 outside of the objective's support.

        The curvature leaves out the covariance between positions: sum_t weight x_tf^2 p_t(k) (1 - p_t(k)), and sum_t
        weight P_t(j, k) (1 - P_t(j, k)) for edges.
        """
        coords = self.coords(np.array([block]))
        g, h = np.empty((2, coords.size))
        block_slopes(self.chain, self.tree, block, g, h)
        self._count()
        return np.where(self.are_possible(coords), g, 0.0), h

    def try_move(self, block: int, delta: Vector, step: float = 1.0) -> float:
        """Return the change of the loss if the block moves by step * delta; then `accept`, `reject` or try again."""
        self._move = block, delta, step
        change = try_block(self.chain, self.tree, block, delta, step)
        self._count()
        return change

    def accept(self) -> None:
        """Make the move that was tried last."""
        if self._move is None:
            raise InputError("expected a move to be tried before it is accepted or rejected")
        accept_block(self.chain, self.tree, *self._move, self._row(self._move[0]))
        self._move = None
        self._count()

    def reject(self) -> None:
        """Undo the move that was tried last."""
        if self._move is not None:
            self.try_move(*self._move[:2], 0.0)
        self.accept()

    def descend(self, blocks: Coords, penalty: Penalty, rule: SweepRule) -> BlockSweep:
        """Update the blocks one after the other, under a penalty of single weights: l1 |w_j| + l2/2 w_j^2."""
        coords = self.coords(blocks)
        l1 = np.where(self.are_possible(coords), penalty.l1_of(coords), np.inf)
        places, violations, is_kept = self.places(blocks), np.empty(blocks.size), np.empty(blocks.size, bool)
        n_moved, n_failed = sweep(
            self.chain, self.tree, blocks, places, self.nodes, self.edges, l1, penalty.l2_of(coords), rule,
            violations, is_kept,
        )  # fmt: skip
        self._count()
        return BlockSweep(violations, is_kept, n_moved, n_failed)

    def _count(self) -> None:
        """Add the messages since the last count to the objective's passes."""
        n_steps = self._state.n_steps
        self.objective.n_passes += float(n_steps.sum()) / (2 * self.objective.n_positions)
        n_steps[:] = 0


def prepare_chain(point: PartPoint, loss: StructuredLoss, chain: Chain) -> ChainState:
    """Return the state at a point; messages are computed when needed."""
    owner = point.part
    n_states, n_positions, n_items = owner.n_states, owner.n_positions, owner.n_items
    observed = loss.structure.counts(loss.targets, owner.weights)
    scores, edges = chain.masked_scores(point.scores, point.edges)
    width = -(-n_states // LANES) * LANES
    indptr, indices, values = owner.map.store.by_feature
    state = ChainState(
        indptr,
        indices,
        values,
        offsets=owner.map.offsets,
        item_of=np.repeat(np.arange(n_items), np.diff(owner.map.offsets)),
        targets=loss.targets,
        rows=aligned_rows(4 * n_positions, width).reshape(4, n_positions, width),
        positions=np.empty((3, n_positions)),
        items=item_numbers(point),
        marks=np.zeros((3, n_items), np.int64),
        edges=np.stack([edges.reshape(-1), edges.reshape(-1), observed]).reshape(3, n_states, n_states),
        factors=aligned_rows(4 * width, width).reshape(4, width, width),
        n_steps=np.zeros(2, np.int64),
    )
    state.rows[0, :, :n_states] = scores.T
    load_chains(state)
    return state


def prepare_tree(point: PartPoint, loss: StructuredLoss, tree: Taxonomy) -> TreeState:
    """Return the state at a point, with the marginals of all items."""
    owner = point.part
    indptr, indices, values = owner.map.store.by_feature
    state = TreeState(
        indptr,
        indices,
        values,
        parents=tree.parents,
        is_label=tree.is_label,
        targets=loss.targets,
        rows=np.empty((2, owner.n_items, tree.n_states)),
        items=item_numbers(point),
        paths=np.zeros(tree.n_states),
        n_steps=np.zeros(2, np.int64),
    )
    state.rows[0] = point.scores.T
    load_trees(state)
    return state


def item_numbers(point: PartPoint) -> Vector:
    """Return each item's weight, log Z and targets' score, and four rows for the kernels, (7, I)."""
    numbers = np.zeros((7, point.part.n_items))
    evaluation = point.evaluation
    assert isinstance(evaluation, LikelihoodEvaluation)
    numbers[WEIGHT], numbers[OUTSIDE] = point.part.weights, np.nan
    numbers[LOG_Z], numbers[OBSERVED] = evaluation.log_partition, evaluation.target_score
    return numbers


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
        Leave out the features whose weights are zero and would remain so: at first by a full gradient scan, then
        each when it is visited. When the others have converged, all are included again.
    shrink_margin : float or None
        A feature of zeros is left out when |g| < (1 - margin) l1 for all its weights; None is the paper's l1 - M / N,
        M the largest violation of the sweep before, N the items.
    cooling : float
        An epoch ends, and the full gradient is scanned, when the violation has fallen to this share of the one that it
        opened with.
    max_sweeps : int
        Or after so many sweeps: a scan costs one pass over the data, a sweep many if features are frequent.
    armijo, backtrack : float
        sigma and beta of the line search.
    floor : float
        The minimum second derivative (paper: 1e-10).

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
        if self.order not in BLOCK_ORDERS:
            raise InputError(f"order: expected one of {BLOCK_ORDERS}, got {self.order!r}")
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
        return Requirements(penalty=("is_row_separable",), states=(BlockState,))

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
                yield replace(initial, end=Status.LINE_SEARCH_FAILED if n_failed > 0 else Status.STALLED)
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
        return SweepRule(
            self.armijo, self.backtrack, self.floor, share, slack, VALUE_ROUNDING * loss.rounding
        )

    def sweep(self, penalty: Penalty, loss: BlockState, blocks: Coords, rule: SweepRule) -> BlockSweep:
        """Update the blocks one after the other."""
        parts = [BlockSweep(np.empty(0), np.empty(0, bool), 0, 0)]
        for batch in np.split(blocks, range(MAX_BLOCKS_PER_CALL, blocks.size, MAX_BLOCKS_PER_CALL)):
            check_time()
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
        check_time()
        coords, w = loss.coords(np.array([block])), loss.weights_of(block)
        g, h = loss.derivatives(block)
        local, before = penalty.at(coords), penalty.value(coords, w)
        least = (1.0 - rule.shrink_share) * local.threshold - rule.shrink_slack
        is_kept = bool(np.any(local.dual_norm(w, g) > least))
        curvature = max(float(h.max()), self.floor)
        d = penalty.prox(coords, w - g / curvature, 1.0 / curvature) - w
        slope = float(g @ d) + penalty.value(coords, w + d) - before

        def attempt(step: float) -> float | None:
            if not -step * slope > rule.noise:
                raise HiddenDecrease
            change = loss.try_move(block, d, step) + penalty.value(coords, w + step * d) - before
            return step if -change >= -self.armijo * (step * slope) else None

        is_promising, has_moved = is_kept and -slope > rule.noise, False
        if is_promising:
            has_moved = not isinstance(backtracking(attempt, 1.0, self.backtrack), Status)
            (loss.accept if has_moved else loss.reject)()
        violation = local.violation(w, g).max(keepdims=True, initial=0.0)
        return BlockSweep(violation, np.array([is_kept]), int(has_moved), int(is_promising and not has_moved))
