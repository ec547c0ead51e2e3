"""Weights that learn item by item, for stochastic gradients: dense, a row a feature, beside the penalty received.

Only the rows of the features that an item has are touched, so they are kept feature by feature, all states side by
side. These are the only arrays of F x K numbers in the library; a problem for which they are too large is refused.

Shapes: I items, F features, K states, E edge weights; width = K rounded up to whole vector registers.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from crfqn.arrays import Coords, Vector
from crfqn.errors import InputError, ViewError
from crfqn.kernels.chain.online import learn_chains
from crfqn.kernels.lazy_penalty import ETA0, apply_lazy_penalty
from crfqn.kernels.rows import LANES, aligned_rows
from crfqn.kernels.taxonomy.online import learn_tree
from crfqn.objectives.blocks import BlockedObjective
from crfqn.objectives.coordinates import split_coords
from crfqn.objectives.losses.likelihood import Likelihood
from crfqn.objectives.objective import Objective
from crfqn.objectives.protocols import OnlineView
from crfqn.objectives.registry import offers
from crfqn.structures.taxonomy import Taxonomy

LARGEST_BYTES = 4 * 10**9
UNPENALISED, PENALISED, FORBIDDEN = 0, 1, 2
SHARES = np.array([0.0, 1.0, np.inf])  # of the penalty, for each of these kinds


class SGDState:
    """The weights of an objective under l1 ||w||_1 + l2/2 ||w||^2, changed by `learn` an item at a time.

    Items of weight 0 are left out: `n_items` counts the others. The order of the items is the caller's; where the data
    come in blocks, an epoch goes through one block after the other.

    Parameters
    ----------
    owner : the objective whose passes are counted
    parts : list of Objective over the same coordinates, the objective itself or its blocks
    start : sorted coordinates and their weights
    l1, l2 : float >= 0
    unpenalised : sorted int64: coordinates without penalty
    share : float
        Of the items that the penalty and the learning rate are meant for, N = n_items / share: a sample's steps are
        those of the whole.

    Raises
    ------
    InputError
        If the arrays would be larger than `LARGEST_BYTES`.
    """

    def __init__(
        self,
        owner: Objective | BlockedObjective,
        parts: list[Objective],
        start: tuple[Coords, Vector],
        l1: float,
        l2: float,
        unpenalised: Coords,
        share: float = 1.0,
    ) -> None:
        self.owner, self.parts = owner, parts
        self.n_states, self.n_features = owner.n_states, parts[0].map.n_features
        self.is_tree = parts[0].loss.n_edges == 0
        self.item_weights = np.concatenate([part.weights for part in parts])
        self.items = np.flatnonzero(self.item_weights > 0)
        self.bounds = np.cumsum([0, *(part.n_items for part in parts)])
        n_rows = self.n_features + (0 if self.is_tree else self.n_states)
        width = -(-self.n_states // LANES) * LANES
        check_memory(n_rows, width, self.n_features, self.n_states)
        self.shares, self.pattern_of = self._patterns(unpenalised, n_rows, width)
        self.rates = np.array([0.0, self.n_items / share, l1, l2])
        self.restart(start)

    def restart(self, start: tuple[Coords, Vector]) -> None:
        """Forget what was learned, and begin at these weights."""
        # In Python, the same lines leave memory untouched until a feature occurs.
        self.table = aligned_rows.py_func(self.pattern_of.size, 2 * self.shares.shape[1])
        self.counters = np.array([0.0, 0.0, 1.0])
        rows, states = self._places(start[0])
        self.table[rows, states] = start[1]

    @property
    def n_items(self) -> int:
        """The items whose weight is not 0."""
        return self.items.size

    @property
    def item_square(self) -> float:
        """The mean over the items of weight * sum_t |x_t|^2: the curvature that a step may meet is in proportion."""
        total = 0.0
        for part in self.parts:
            total += float(part.map.weighted_squares(part.position_weights).sum())
        return total / self.n_items

    def learn(self, order: NDArray[np.integer], eta0: float) -> None:
        """Take a gradient step on each of the items `order`, numbers below `n_items`, with eta_k = eta0 / (1 + k / N).

        k counts the steps since the start. Sequential, whatever the number of threads: the result depends on the
        order alone. Afterwards no penalty is outstanding.
        """
        self.rates[ETA0] = eta0
        chosen = self.items[order]
        part_of = np.searchsorted(self.bounds, chosen, side="right") - 1
        _, first = np.unique(part_of, return_index=True)
        for which in part_of[np.sort(first)]:
            rest = chosen[part_of == which] - self.bounds[which]
            while rest.size:
                rest = rest[self._learn_part(which, rest) :]
                apply_lazy_penalty(self.table, self.shares, self.pattern_of, self.counters)
        self.owner.n_passes += order.size / self.n_items

    def weights(self) -> tuple[Coords, Vector]:
        """Return the sorted coordinates of the weights that are not 0, and their values."""
        dense = self.table[:, : self.n_states]
        rows, states = np.nonzero(dense)
        n_node_coords = self.n_states * self.n_features
        edge = n_node_coords + (rows - self.n_features) * self.n_states + states
        coords = np.where(rows < self.n_features, states * self.n_features + rows, edge)
        by_coord = np.argsort(coords)
        return coords[by_coord], dense[rows[by_coord], states[by_coord]]

    def _learn_part(self, which: int, order: NDArray[np.int64]) -> int:
        """Take steps on items of a part while numbers stay in range; returns how many."""
        part, loss = self.parts[which], self.parts[which].loss
        assert isinstance(loss, Likelihood)
        data = (order, part.map.offsets, *part.map.store.by_position(), loss.targets, part.weights)
        state = (self.table, self.shares, self.pattern_of, self.counters, self.rates)
        if isinstance(loss.structure, Taxonomy):
            return int(learn_tree(*data, loss.structure.parents, loss.structure.is_label, *state))
        return int(learn_chains(*data, self.n_states, *state))

    def _places(self, coords: Coords) -> tuple[Coords, Coords]:
        """Return rows and columns of sorted coordinates in the dense arrays."""
        split = split_coords(coords, self.n_states, self.n_features)
        edge_from, edge_to = np.divmod(split.edges, self.n_states)
        return (
            np.concatenate([split.features, self.n_features + edge_from]),
            np.concatenate([split.states, edge_to]),
        )

    def _patterns(self, unpenalised: Coords, n_rows: int, width: int) -> tuple[Vector, NDArray[np.int32]]:
        """Return the different rows of shares of the penalty, (patterns, width), and which is whose, (rows,)."""
        support = self.owner.support
        is_whole = support.nodes is None and support.edges is None
        pattern_of = np.zeros(n_rows, np.int32)
        unpenalised_rows, unpenalised_states = self._places(unpenalised)
        special = np.unique(unpenalised_rows) if is_whole else np.arange(n_rows)
        kinds = np.full((special.size, self.n_states), PENALISED if is_whole else FORBIDDEN, np.uint8)
        if not is_whole:
            kinds[self._places(support.coords())] = PENALISED
        kinds[np.searchsorted(special, unpenalised_rows), unpenalised_states] = UNPENALISED
        first, which = different_rows(kinds)
        pattern_of[special] = 1 + which
        shares = np.ones((1 + first.size, width))
        shares[1:, : self.n_states] = SHARES[kinds[first]]
        return shares, pattern_of


def different_rows(kinds: NDArray[np.uint8]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Find equal rows in a table of numbers below 4: the first of each kind, and each row's kind.

    32 numbers make a key of 64 bits: sorting keys takes 1/100 of the time of sorting rows.
    """
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
            f"stochastic gradients keep dense arrays of features x states: {n_features} x {n_states} would take "
            f"{n_bytes / 1e9:.3g} GB, and at most {LARGEST_BYTES / 1e9:g} GB are allowed; choose another solver"
        )


@dataclass(frozen=True)
class LikelihoodLearning:
    """Learning item by item for a likelihood, in one piece or block after block."""

    owner: Objective | BlockedObjective
    parts: list[Objective]

    def start(
        self, start: tuple[Coords, Vector], l1: float, l2: float, unpenalised: Coords, share: float = 1.0
    ) -> SGDState:
        """Return dense weights that learn item by item; parameters as of `SGDState`."""
        return SGDState(self.owner, self.parts, start, l1, l2, unpenalised, share)


@offers(OnlineView, Objective)
@offers(OnlineView, BlockedObjective)
def learning_of(owner: Objective | BlockedObjective) -> LikelihoodLearning:
    """Return what learns a likelihood; ViewError for other losses, whose items have no such updates."""
    parts = owner.parts if isinstance(owner, BlockedObjective) else [owner]
    if not isinstance(parts[0].loss, Likelihood):
        raise ViewError(
            f"learning item by item needs a likelihood; the loss is {type(parts[0].loss).__name__}"
        )
    if parts[0].offset is not None:
        raise ViewError(
            "learning item by item knows scores of the weights alone; this objective has an offset"
        )
    return LikelihoodLearning(owner, parts)
