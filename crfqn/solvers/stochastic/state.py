"""Dense weights for learning item by item, one row for each feature, and the data of an objective for it.

A step on an item reads and writes the rows of the item's features only. Problems with too many weights are refused.

Shapes: I items, F features, K states, E edge weights; width = K rounded up to whole vector registers.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from crfqn.arrays import NO_COORDS, Coords, SparseWeights, Vector
from crfqn.errors import InputError, UnsupportedObjectiveError
from crfqn.kernels.rows import LANES, aligned_rows
from crfqn.kernels.viterbi import TransitionMask
from crfqn.objectives.linear.feature_map import CoordinateParts
from crfqn.objectives.losses.score_loss import ScoreLoss
from crfqn.objectives.objective import MethodState, Objective
from crfqn.objectives.part import Part
from crfqn.objectives.point import Point
from crfqn.penalties.penalty import Penalty
from crfqn.solvers.stochastic.item_kernels import (
    N_SEEN,
    N_WRONG,
    ItemChange,
    ItemData,
    ItemSpace,
    ItemStructure,
    LearnedWeights,
    count_means,
    write_means,
)
from crfqn.solvers.stochastic.learning_kernels import learn_items
from crfqn.solvers.stochastic.sgd_kernels import ETA0, GradientSteps, ItemColumns, apply_lazy_penalty
from crfqn.structures.chain import Chain
from crfqn.structures.edge_layout import EdgeLayout
from crfqn.structures.taxonomy import Taxonomy
from crfqn.threads import in_time

MAX_BYTES = 4 * 10**9  # of two arrays of weights: a limit of memory
# Kinds of weights; absent ones are outside the support and stay zero.
UNPENALISED, PENALISED, ABSENT = 0, 1, 2
PENALTY_FACTORS = np.array([0.0, 1.0, np.inf])  # factors of the penalty of each kind
MAX_KINDS_PER_KEY = 32  # kinds of a row that fit into a key of 64 bits, 2 bits each


class LearnedRows(MethodState):
    """Dense rows of weights that learn from the items of an objective, in the order that the caller chooses.

    Data in several parts are visited part after part. Raises InputError if two arrays of weights exceed `MAX_BYTES`.

    rows : the weights, and what the method keeps for each of them
    items, n_items : the indices of the items whose weight is above 0, and their number
    bounds : int64 (parts + 1,), the index of each part's first item
    """

    takes_parts: ClassVar[bool] = True
    method: ClassVar[str] = "learning item by item"
    needs_labels: ClassVar[bool] = True  # whether every position must have a label

    rows: Any

    def __init__(self, owner: Objective) -> None:
        self.owner, parts = owner, owner.parts
        self.parts = parts
        self.n_states, self.n_features = owner.n_states, parts[0].map.n_features
        self.items = np.flatnonzero(np.concatenate([part.weights for part in parts]) > 0)
        self.n_items = self.items.size
        self.bounds = np.cumsum([0, *(part.n_items for part in parts)])
        self.n_rows = self.n_features + (self.n_states if parts[0].loss.n_edges else 0)
        self.width = -(-self.n_states // LANES) * LANES
        check_memory(self.n_rows, self.width, self.n_features, self.n_states)
        self._scratch_of = -1

    @classmethod
    def check(cls, objective: Objective) -> None:
        """Raise UnsupportedObjectiveError if the method does not support the loss, or the objective has offsets."""
        cls.check_loss(objective.first.loss)
        if objective.first.offset is not None:
            raise UnsupportedObjectiveError(
                f"{cls.method} supports scores of the weights alone; this objective has an offset"
            )

    @classmethod
    def check_loss(cls, loss: ScoreLoss) -> None:
        """Raise UnsupportedObjectiveError unless the loss is a likelihood whose structure has compiled updates."""
        if not loss.has_marginals or (cls.needs_labels and not loss.is_convex):
            raise UnsupportedObjectiveError(
                f"{cls.method} needs a likelihood{' of known labels' * cls.needs_labels}; "
                f"the loss is {type(loss).__name__}"
            )
        if loss.has_position_weights:
            raise UnsupportedObjectiveError(
                f"{cls.method} expects one weight for all positions of an item, not one for each"
            )
        cls.check_structure(loss.structure)

    @classmethod
    def check_structure(cls, structure: object) -> None:
        """Raise UnsupportedObjectiveError for a structure that has no compiled updates."""
        if not isinstance(structure, (Chain, Taxonomy)):
            raise UnsupportedObjectiveError(
                f"{cls.method} needs a chain or a taxonomy; the structure is {type(structure).__name__}"
            )

    def runs(self, order: NDArray[np.integer]) -> Iterator[tuple[int, ItemData, NDArray[np.int64]]]:
        """Yield (part, its data, its items) for the items `order`, numbers below `n_items`, in their order within each
        part; as many items at a time as are visited between two checks of the time limit."""
        chosen = self.items[order]
        part_of = np.searchsorted(self.bounds, chosen, side="right") - 1
        _, first = np.unique(part_of, return_index=True)
        for which in part_of[np.sort(first)]:
            items = chosen[part_of == which] - self.bounds[which]
            data = self.item_data(which)
            begins, ends = data.offsets[items], data.offsets[items + 1]
            n_entries = data.indptr[ends] - data.indptr[begins]
            n_edges = (self.n_rows - self.n_features) * (ends - begins)
            for piece in in_time(self.width * (n_entries + n_edges)):
                yield which, data, items[piece]

    def step(self, order: NDArray[np.integer], settings: object = None) -> None:
        """Take a step on each of the items `order`, one after another; settings : as of `steps`. The result depends on
        the order alone, not on the number of threads."""
        for which, data, items in self.runs(order):
            if self._scratch_of != which:
                longest = int(np.diff(data.offsets).max())
                n_entries = int(np.diff(data.indptr[data.offsets]).max())
                self._scratch = self.new_entries(data, longest, n_entries), self.new_space(longest)
                self._scratch_of = which
            steps = self.steps(which, settings, *self._scratch)
            while items.size:
                items = items[learn_items(items, data, self.item_structure, self.rows, *steps) :]
                if items.size:  # the scale is out of range
                    apply_lazy_penalty(self.rows)

    def steps(self, which: int, settings: Any, entries: Any, space: ItemSpace) -> tuple[object, ...]:
        """Return the last five arguments of `learn_items` for items of a part; entries : of `new_entries`."""
        raise NotImplementedError

    def new_entries(self, data: ItemData, longest: int, n_entries: int) -> ItemChange | ItemColumns:
        """Return scratch for the entries of an item of up to `longest` positions and `n_entries` entries."""
        is_chain, n_differing = self.item_structure.is_chain, 2 * self.depth
        size = n_differing * n_entries + 2 * longest
        n_merged = min(n_entries, self.n_rows) + min(2 * longest, self.n_states) if is_chain else 0
        place_of = np.full(self.n_rows if is_chain else 0, -1, np.int32)
        entries = np.empty(size, np.int64), np.empty(size, np.int64), np.empty(size)
        nodes = np.empty(n_differing, np.int64), np.empty(n_differing)
        return ItemChange(*entries, *nodes, place_of, aligned_rows(n_merged, self.width))

    def new_space(self, longest: int) -> ItemSpace:
        """Return scratch for items of up to `longest` positions."""
        n_paired, width = self.width if self.item_structure.is_chain else 0, self.width
        by_position = aligned_rows(6 * (longest + 1), width).reshape(6, -1, width)
        by_pair = aligned_rows(6 * n_paired, width).reshape(6, n_paired, width)
        integers, lattice = np.empty((2, longest), np.int32), np.empty((2, 0, self.n_states), np.int32)
        matrices = *by_position[:4], by_position[4:], *by_pair[:4], by_pair[4:]
        return ItemSpace._make([*matrices, np.empty(longest), *integers, lattice])

    @cached_property
    def depth(self) -> int:
        """The largest number of nodes on the path from the root to a label."""
        parents = self.item_structure.parents
        depth = np.ones(parents.size, np.int64)
        for k in np.flatnonzero(parents >= 0):  # a node's parent has a lower number
            depth[k] += depth[parents[k]]
        return int(depth.max())

    @cached_property
    def item_structure(self) -> ItemStructure:
        """The structure of the items for the kernels."""
        structure, width = self.parts[0].loss.structure, self.width
        if isinstance(structure, Taxonomy):
            no_rules = TransitionMask(np.empty((0, width)), np.zeros(width), np.zeros(width))
            return ItemStructure(structure.parents, structure.is_label, no_rules, False)
        parents = np.full(self.n_states, -1, np.int32)
        return ItemStructure(parents, np.ones(self.n_states, bool), structure.mask, True)

    def item_data(self, which: int) -> ItemData:
        """Return the items of a part for the kernels."""
        part = self.parts[which]
        indptr, features, values = part.map.store.by_position
        return ItemData(part.map.offsets, indptr, features, values, self.targets(part), part.weights)

    def targets(self, part: Part) -> NDArray[np.integer]:
        """Return the observed states of a part's positions."""
        return part.loss.targets

    def release(self) -> None:
        """Free the copy of the features by position."""
        for part in self.parts:
            part.map.store.release_rows()

    def new_weights(
        self,
        unpenalised: Coords = NO_COORDS,
        is_lazy: bool = False,
        has_mean: bool = False,
        variance: float = 0.0,
    ) -> LearnedWeights:
        """Return zero weights; is_lazy : with received penalties; has_mean : with corrections; variance : if above 0,
        the initial variance of each weight."""
        kinds, pattern_of = self.patterns(unpenalised)
        shares = np.ones((len(kinds), self.width))
        shares[:, : self.n_states] = PENALTY_FACTORS[kinds]
        weights = aligned_rows(self.n_rows, (1 + is_lazy) * self.width)
        corrections = aligned_rows(self.n_rows if has_mean else 0, self.width)
        variances = aligned_rows(self.n_rows if variance > 0 else 0, self.width)
        variances[:] = variance
        return LearnedWeights(weights, corrections, variances, shares, pattern_of, np.zeros(3))

    def sparse(self, table: Vector, corrections: Vector | None = None, share: float = 0.0) -> SparseWeights:
        """Return the entries of table - share * corrections, (rows, width) both, that are not 0."""
        subtracted = table if corrections is None else corrections
        rows = self.n_features, table, subtracted, share
        counts = np.zeros(self.n_states, np.int64)
        count_means(*rows, counts)
        edges = (table[self.n_features :] - share * subtracted[self.n_features :])[
            :, : self.n_states
        ].reshape(-1)
        found = np.flatnonzero(edges)
        n_nodes = int(counts.sum())
        coords, means = np.empty(n_nodes + found.size, np.int64), np.empty(n_nodes + found.size)
        write_means(*rows, np.cumsum(counts) - counts, coords, means)
        coords[n_nodes:], means[n_nodes:] = self.n_features * self.n_states + found, edges[found]
        return SparseWeights(coords, means)

    def places(self, coords: Coords) -> tuple[Coords, Coords]:
        """Return the rows and columns of sorted coordinates in the dense arrays."""
        split = CoordinateParts.from_coords(coords, self.n_states, self.n_features)
        edges = EdgeLayout(self.n_states).split(split.edges)
        return (
            np.concatenate([split.features, self.n_features + edges.from_]),
            np.concatenate([split.states, edges.to]),
        )

    def patterns(self, unpenalised: Coords) -> tuple[NDArray[np.uint8], NDArray[np.int32]]:
        """Return the distinct rows of kinds (UNPENALISED, PENALISED or ABSENT), (patterns, K), and the pattern of each
        row, (rows,); pattern 0 is PENALISED in all states."""
        support = self.owner.support
        is_whole = support.nodes is None and support.edges is None
        pattern_of = np.zeros(self.n_rows, np.int32)
        free_rows, free_states = self.places(unpenalised)
        special = np.unique(free_rows) if is_whole else np.arange(self.n_rows)
        kinds = np.full((special.size, self.n_states), PENALISED if is_whole else ABSENT, np.uint8)
        if not is_whole:
            kinds[self.places(support.coords())] = PENALISED
        kinds[np.searchsorted(special, free_rows), free_states] = UNPENALISED
        first, which = distinct_rows(kinds)
        pattern_of[special] = 1 + which
        return np.concatenate([np.full((1, self.n_states), PENALISED, np.uint8), kinds[first]]), pattern_of


class SGDState(LearnedRows):
    """Weights under l1 ||w||_1 + l2/2 ||w||^2 that take a gradient step for each item (`sgd_kernels.py`).

    start : sorted coordinates and their weights
    penalty : the penalty, whose l1 and l2 are the same for all weights
    share : the fraction of all items that these are; N = n_items / share, so that a step is that of all items
    """

    needs_labels = False
    rows: LearnedWeights

    def __init__(
        self, owner: Objective, start: tuple[Coords, Vector], penalty: Penalty, share: float = 1.0
    ) -> None:
        super().__init__(owner)
        self.rows = self.new_weights(penalty.unpenalised, is_lazy=True)
        self.rates = np.array([0.0, self.n_items / share, penalty.l1, penalty.l2])
        self.restart(start)

    def restart(self, start: tuple[Coords, Vector]) -> None:
        """Reset the weights to `start`, and the counters to zero."""
        self.rows.weights[:] = 0.0
        self.rows.weights[self.places(start[0])] = start[1]
        self.rows.counters[:] = 0.0, 0.0, 1.0

    @property
    def item_square(self) -> float:
        """The mean over the items of weight * sum_t |x_t|^2, to which the curvature of an item is proportional."""
        total = 0.0
        for part in self.parts:
            total += float(part.map.weighted_squares(part.position_weights).sum())
        return total / self.n_items

    def learn(self, order: NDArray[np.integer], eta0: float) -> None:
        """Take a gradient step on each of the items `order`, with the rate eta_k = eta0 / (1 + k / N), k the number of
        steps since the start; then apply all accrued penalties."""
        self.rates[ETA0] = eta0
        self.step(order)
        apply_lazy_penalty(self.rows)
        self.owner.n_passes += order.size / self.n_items

    def new_entries(self, data: ItemData, longest: int, n_entries: int) -> ItemColumns:
        present = np.empty(n_entries + self.n_rows - self.n_features, np.int64)
        first_of, positions = np.empty(n_entries + 1, np.int64), np.empty(n_entries, np.int32)
        x = np.empty(n_entries if data.values.size else 0)
        return ItemColumns(present, first_of, positions, x, np.full(self.n_features, -1, np.int32))

    def steps(self, which: int, settings: object, entries: Any, space: ItemSpace) -> tuple[object, ...]:
        relevance, parents = self.parts[which].loss.relevance, self.item_structure.parents
        is_chain = self.item_structure.is_chain
        gradient = GradientSteps(
            self.rates, relevance if is_chain else None, None if is_chain else parents, entries
        )
        return gradient, None, None, None, space

    def weights(self) -> tuple[Coords, Vector]:
        """Return the sorted coordinates of the weights that are not 0, and their values."""
        return self.sparse(self.rows.weights)


class PerceptronState(LearnedRows):
    """Weights that are corrected after each wrongly labelled item, and their mean over the items.

    start : sorted coordinates and the initial weights; weights outside the support of the objective stay zero
    variance : the initial variance of each weight, of AROW, which has no mean; 0 for the other methods
    """

    rows: LearnedWeights

    def __init__(self, owner: Objective, start: tuple[Coords, Vector], variance: float = 0.0) -> None:
        super().__init__(owner)
        self.rows = self.new_weights(has_mean=variance == 0, variance=variance)
        self.rows.weights[self.places(start[0])] = start[1]

    def correct(self, order: NDArray[np.integer], aggressiveness: float) -> int:
        """Label the items `order`, and correct the weights after each wrong one; return the number of wrongly labelled
        positions. aggressiveness : the maximum step of passive-aggressive learning; gamma of AROW; 0 for the
        perceptron, whose steps are 1."""
        before = self.rows.counters[N_WRONG]
        self.step(order, float(aggressiveness))
        self.owner.n_passes += order.size / self.n_items
        return int(self.rows.counters[N_WRONG] - before)

    def steps(self, which: int, settings: float, entries: ItemChange, space: ItemSpace) -> tuple[object, ...]:
        return None, None, settings, entries, space

    def resume(self, rows: LearnedWeights, n_features: int) -> None:
        """Continue with rows that were learned before, of the same states and at most as many features; the arrays are
        reused if the number of features is the same."""
        if n_features == self.n_features:
            self.rows = rows._replace(shares=self.rows.shares, pattern_of=self.rows.pattern_of)
            return
        for new, before in zip(self.rows[:3], rows[:3], strict=True):
            new[:n_features], new[self.n_features :] = before[:n_features], before[n_features:]
        self.rows = self.rows._replace(counters=rows.counters)

    def point(self) -> Point:
        """Return the point of the mean of the weights after each item so far, or of AROW's last weights; it is
        evaluated when it is needed."""
        if not self.rows.corrections.size:
            return self.owner.at(*self.sparse(self.rows.weights))
        share = 1.0 / max(self.rows.counters[N_SEEN], 1.0)
        return self.owner.at(*self.sparse(self.rows.weights, self.rows.corrections, share))


def distinct_rows(kinds: NDArray[np.uint8]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return the index of the first of all equal rows in a table of numbers below 4, and the index of each row's kind
    among these. Rows are sorted by keys of 64 bits, which is much faster than by columns."""
    which = np.zeros(len(kinds), np.intp)
    first = np.zeros(min(1, len(kinds)), np.intp)
    for begin in range(0, kinds.shape[1], MAX_KINDS_PER_KEY):
        part = kinds[:, begin : begin + MAX_KINDS_PER_KEY].astype(np.uint64)
        keys = (part << (2 * np.arange(part.shape[1], dtype=np.uint64))).sum(axis=1, dtype=np.uint64)
        if begin > 0:
            _, new = np.unique(keys, return_inverse=True)
            keys = which * (new.max(initial=0) + 1) + new
        _, first, which = np.unique(keys, return_index=True, return_inverse=True)
    return first, which


def check_memory(n_rows: int, width: int, n_features: int, n_states: int) -> None:
    """Raise InputError if two arrays of float64 (n_rows, width) exceed `MAX_BYTES`."""
    n_bytes = 2 * 8 * n_rows * width
    if n_bytes > MAX_BYTES:
        raise InputError(
            f"this method keeps dense arrays of features x states: {n_features} x {n_states} would take "
            f"{n_bytes / 1e9:.3g} GB, and at most {MAX_BYTES / 1e9:g} GB are allowed; choose another solver"
        )
