"""Dense weights, a row a feature, that learn item by item, and what all such methods need of an objective.

Only the rows of the features that an item has are touched, so they are kept feature by feature: the only arrays of F x
K numbers in the library; a problem for which they are too large is refused. Shapes: I items, F features, K states, E
edge weights; width = K rounded up to whole vector registers.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from crfqn.arrays import NO_COORDS, Coords, SparseWeights, Vector
from crfqn.errors import InputError, ViewError
from crfqn.kernels.rows import LANES, aligned_rows
from crfqn.kernels.viterbi import TransitionMask
from crfqn.objectives.linear.feature_map import split_coords
from crfqn.objectives.objective import MethodState, Objective
from crfqn.objectives.point import Point
from crfqn.solvers.stochastic.item_kernels import (
    N_SEEN,
    N_WRONG,
    AveragedRows,
    ItemData,
    ItemStructure,
    count_means,
    write_means,
)
from crfqn.solvers.stochastic.perceptron_kernels import correct
from crfqn.solvers.stochastic.sgd_kernels import (
    ETA0,
    ChainSpace,
    ItemColumns,
    LazyRows,
    apply_lazy_penalty,
    learn_chains,
    learn_documents,
)
from crfqn.structures.chain import Chain
from crfqn.structures.edge_layout import EdgeLayout
from crfqn.structures.taxonomy import Taxonomy
from crfqn.threads import in_time

LARGEST_BYTES = 4 * 10**9
FREE, PAID, FORBIDDEN = 0, 1, 2  # kinds of weights: without penalty, with it, and those that stay zero
SHARES = np.array([0.0, 1.0, np.inf])  # of the penalty, for each of these kinds


class LearnedRows(MethodState):
    """Items that weights learn from, `n_items` without those of weight 0, and where the weights of sorted coordinates
    stand in dense rows; the order of the items is the caller's, block after block where the data come in blocks.

    InputError if two arrays of such rows would be larger than `LARGEST_BYTES`.
    """

    takes_parts: ClassVar[bool] = True
    method: ClassVar[str] = "learning item by item"
    needs_labels: ClassVar[bool] = True  # one a position

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

    @classmethod
    def check(cls, objective: Objective) -> None:
        """Raise ViewError for losses and structures that the method cannot learn from, and for offsets."""
        cls.check_loss(objective.first.loss)
        if objective.first.offset is not None:
            raise ViewError(f"{cls.method} knows scores of the weights alone; this objective has an offset")

    @classmethod
    def check_loss(cls, loss: Any) -> None:
        """Raise ViewError for other losses than likelihoods, and for structures without compiled updates."""
        if not loss.has_marginals or (cls.needs_labels and not loss.is_convex):
            raise ViewError(
                f"{cls.method} needs a likelihood{' of known labels' * cls.needs_labels}; "
                f"the loss is {type(loss).__name__}"
            )
        if loss.has_position_weights:
            raise ViewError(f"{cls.method} expects one weight for all positions of an item, not one for each")
        cls.check_structure(loss.structure)

    @classmethod
    def check_structure(cls, structure: Any) -> None:
        """Raise ViewError for a structure that has no compiled updates."""
        if not isinstance(structure, (Chain, Taxonomy)):
            raise ViewError(
                f"{cls.method} needs a chain or a taxonomy; the structure is {type(structure).__name__}"
            )

    def runs(self, order: NDArray[np.integer]) -> Iterator[tuple[int, NDArray[np.int64]]]:
        """Yield each part that has some of the items `order`, numbers below `n_items`, and its items in their order: as
        many at a time as can be visited between two looks at the limits of time."""
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
                yield which, items[piece]

    @cached_property
    def item_structure(self) -> ItemStructure:
        """The structure of all items, as kernels read it."""
        structure, width = self.parts[0].loss.structure, self.width
        if isinstance(structure, Taxonomy):
            no_rules = TransitionMask(np.empty((0, width)), np.zeros(width), np.zeros(width))
            return ItemStructure(structure.parents, structure.is_label, no_rules, False)
        parents = np.full(self.n_states, -1, np.int32)
        return ItemStructure(parents, np.ones(self.n_states, bool), structure.mask, True)

    def item_data(self, which: int) -> ItemData:
        """Return what kernels read of the items of a part."""
        part = self.parts[which]
        indptr, features, values = part.map.store.by_position()
        return ItemData(part.map.offsets, indptr, features, values, part.loss.targets, part.weights)

    def release(self) -> None:
        """Free the entries by position, of which later methods seldom ask again."""
        for part in self.parts:
            part.map.store.release_rows()

    def averaged_rows(self, has_mean: bool = True, variance: float = 0.0) -> AveragedRows:
        """Return weights of zeros, of which a mean is kept or not, or each with a `variance` above 0."""
        kinds, pattern_of = self.patterns(NO_COORDS)
        is_fixed = np.zeros((len(kinds), self.width), bool)
        is_fixed[:, : self.n_states] = kinds == FORBIDDEN
        weights = aligned_rows(self.n_rows, self.width)
        corrections = aligned_rows(self.n_rows if has_mean else 0, self.width)
        variances = aligned_rows(self.n_rows if variance > 0 else 0, self.width)
        variances[:] = variance
        return AveragedRows(weights, corrections, variances, is_fixed, pattern_of, np.zeros(2))

    def sparse(self, table: Vector, corrections: Vector | None = None, share: float = 0.0) -> SparseWeights:
        """Return the weights of table - share * corrections, (rows, width) each, that are not 0."""
        less = table if corrections is None else corrections
        rows = self.n_features, table, less, share
        counts = np.zeros(self.n_states, np.int64)
        count_means(*rows, counts)
        edges = (table[self.n_features :] - share * less[self.n_features :])[:, : self.n_states].reshape(-1)
        found = np.flatnonzero(edges)
        n_nodes = int(counts.sum())
        coords, means = np.empty(n_nodes + found.size, np.int64), np.empty(n_nodes + found.size)
        write_means(*rows, np.cumsum(counts) - counts, coords, means)
        coords[n_nodes:], means[n_nodes:] = self.n_features * self.n_states + found, edges[found]
        return SparseWeights(coords, means)

    def places(self, coords: Coords) -> tuple[Coords, Coords]:
        """Return the rows and columns of sorted coordinates in the dense arrays."""
        split = split_coords(coords, self.n_states, self.n_features)
        edges = EdgeLayout(self.n_states).split(split.edges)
        return (
            np.concatenate([split.features, self.n_features + edges.from_]),
            np.concatenate([split.states, edges.to]),
        )

    def patterns(self, unpenalised: Coords) -> tuple[NDArray[np.uint8], NDArray[np.int32]]:
        """Return the different rows of kinds (FREE, PAID or FORBIDDEN: outside of the objective's support),
        (patterns, K), and which is whose, (rows,); pattern 0 is PAID throughout."""
        support = self.owner.support
        is_whole = support.nodes is None and support.edges is None
        pattern_of = np.zeros(self.n_rows, np.int32)
        free_rows, free_states = self.places(unpenalised)
        special = np.unique(free_rows) if is_whole else np.arange(self.n_rows)
        kinds = np.full((special.size, self.n_states), PAID if is_whole else FORBIDDEN, np.uint8)
        if not is_whole:
            kinds[self.places(support.coords())] = PAID
        kinds[np.searchsorted(special, free_rows), free_states] = FREE
        first, which = different_rows(kinds)
        pattern_of[special] = 1 + which
        return np.concatenate([np.full((1, self.n_states), PAID, np.uint8), kinds[first]]), pattern_of


class SGDState(LearnedRows):
    """Weights under l1 ||w||_1 + l2/2 ||w||^2, a gradient step an item (`sgd_kernels.py`).

    start, penalty : sorted coordinates and their weights; ElasticNet
    share : of the items that the penalty and the learning rate are meant for, N = n_items / share: a sample's steps are
        those of the whole
    """

    needs_labels = False

    def __init__(
        self, owner: Objective, start: tuple[Coords, Vector], penalty: Any, share: float = 1.0
    ) -> None:
        super().__init__(owner)
        kinds, self._pattern_of = self.patterns(penalty.unpenalised)
        self._shares = np.ones((len(kinds), self.width))
        self._shares[:, : self.n_states] = SHARES[kinds]
        self.rates = np.array([0.0, self.n_items / share, penalty.l1, penalty.l2])
        self.restart(start)

    def restart(self, start: tuple[Coords, Vector]) -> None:
        """Forget what was learned, and begin at these weights."""
        table = aligned_rows(self.n_rows, 2 * self.width)
        table[self.places(start[0])] = start[1]
        self.rows = LazyRows(table, self._shares, self._pattern_of, np.array([0.0, 0.0, 1.0]))

    @property
    def item_square(self) -> float:
        """The mean over the items of weight * sum_t |x_t|^2: the curvature that a step may meet is in proportion."""
        total = 0.0
        for part in self.parts:
            total += float(part.map.weighted_squares(part.position_weights).sum())
        return total / self.n_items

    def learn(self, order: NDArray[np.integer], eta0: float) -> None:
        """Take a gradient step on each of the items `order`, with eta_k = eta0 / (1 + k / N), k the steps since the
        start; sequential: the result depends on the order alone. Afterwards no penalty is outstanding."""
        self.rates[ETA0] = eta0
        for which, items in self.runs(order):
            data, structure, width = self.item_data(which), self.item_structure, self.width
            longest, most = (
                int(np.diff(ends)[items].max()) for ends in (data.offsets, data.indptr[data.offsets])
            )
            columns = ItemColumns(
                np.empty(most + self.n_rows - self.n_features, np.int64), np.empty(most + 1, np.int64),
                np.empty(most, np.int32), np.empty(most if data.values.size else 0),
                np.full(self.n_features, -1, np.int32),
            )  # fmt: skip
            by_position = aligned_rows(5 * (longest if structure.is_chain else 1), width)
            by_pair = aligned_rows(7 * width if structure.is_chain else 0, width).reshape(-1, width, width)
            space = ChainSpace(by_position.reshape(5, -1, width), by_pair, np.empty(longest))
            while items.size:
                if structure.is_chain:
                    rules = structure.mask, self.parts[which].loss.relevance
                    steps = learn_chains(items, data, *rules, self.rows, self.rates, columns, space)
                else:
                    steps = learn_documents(
                        items, data, structure, self.rows, self.rates, columns, by_position
                    )
                items = items[steps:]
                if items.size:  # the scale has gone out of range
                    apply_lazy_penalty(self.rows)
        apply_lazy_penalty(self.rows)
        self.owner.n_passes += order.size / self.n_items

    def weights(self) -> tuple[Coords, Vector]:
        """Return the sorted coordinates of the weights that are not 0, and their values."""
        return self.sparse(self.rows.table)


class PerceptronState(LearnedRows):
    """Weights, corrected an item at a time, and the mean of all that they have been, from `start` on.

    Weights outside of the objective's support stay zero. variance : above 0 for AROW, which has no mean
    """

    def __init__(self, owner: Objective, start: tuple[Coords, Vector], variance: float = 0.0) -> None:
        super().__init__(owner)
        self.rows = self.averaged_rows(has_mean=variance == 0, variance=variance)
        self.rows.weights[self.places(start[0])] = start[1]

    def correct(self, order: NDArray[np.integer], aggressiveness: float) -> int:
        """Label the items `order`, and learn from each mistake at once, in steps of at most `aggressiveness`, 0 for the
        perceptron, whose steps are 1; of AROW it is gamma. Returns the number of positions that were labelled wrongly.

        Sequential, whatever the number of threads: the result depends on the order alone.
        """
        before, rows = self.rows.counters[N_WRONG], self.rows
        for which, items in self.runs(order):
            correct(items, self.item_data(which), self.item_structure, aggressiveness, rows)
        self.owner.n_passes += order.size / self.n_items
        return int(rows.counters[N_WRONG] - before)

    def resume(self, rows: AveragedRows, n_features: int) -> None:
        """Go on from rows that were learned before, of the same states and perhaps of fewer features: in the same
        arrays where there are as many."""
        tables = rows[:3]
        if n_features != self.n_features:
            for new, before in zip(self.rows[:3], tables, strict=True):
                new[:n_features], new[self.n_features :] = before[:n_features], before[n_features:]
            tables = self.rows[:3]
        self.rows = AveragedRows(*tables, self.rows.is_fixed, self.rows.pattern_of, rows.counters)

    def point(self) -> Point:
        """Return the point of the mean of the weights after each item so far, of AROW the last weights; its pass waits
        until it is needed."""
        if not self.rows.corrections.size:
            return self.owner.at(*self.sparse(self.rows.weights))
        share = 1.0 / max(self.rows.counters[N_SEEN], 1.0)
        return self.owner.at(*self.sparse(self.rows.weights, self.rows.corrections, share))


def different_rows(kinds: NDArray[np.uint8]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Find equal rows in a table of numbers below 4: the first of each kind, and each row's kind. 32 numbers make a key
    of 64 bits: sorting keys takes 1/100 of the time of sorting rows."""
    which = np.zeros(len(kinds), np.intp)
    first = np.zeros(min(1, len(kinds)), np.intp)
    for begin in range(0, kinds.shape[1], 32):
        part = kinds[:, begin : begin + 32].astype(np.uint64)
        keys = (part << (2 * np.arange(part.shape[1], dtype=np.uint64))).sum(axis=1, dtype=np.uint64)
        if begin > 0:
            _, new = np.unique(keys, return_inverse=True)
            keys = which * (new.max(initial=0) + 1) + new
        _, first, which = np.unique(keys, return_index=True, return_inverse=True)
    return first, which


def check_memory(n_rows: int, width: int, n_features: int, n_states: int) -> None:
    """Refuse two arrays of float64 (n_rows, width) beyond `LARGEST_BYTES`."""
    n_bytes = 2 * 8 * n_rows * width
    if n_bytes > LARGEST_BYTES:
        raise InputError(
            f"this method keeps dense arrays of features x states: {n_features} x {n_states} would take "
            f"{n_bytes / 1e9:.3g} GB, and at most {LARGEST_BYTES / 1e9:g} GB are allowed; choose another solver"
        )
