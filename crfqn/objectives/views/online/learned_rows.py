"""Dense weights, a row a feature, that are changed item by item: what all online methods share.

Only the rows of the features that an item has are touched, so they are kept feature by feature. These are the only
arrays of F x K numbers in the library; a problem for which they are too large is refused.

Shapes: I items, F features, K states, E edge weights; width = K rounded up to whole vector registers.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from crfqn.arrays import Coords, SparseWeights, Vector
from crfqn.errors import InputError, ViewError
from crfqn.kernels.online.means import count_means, write_means
from crfqn.kernels.rows import LANES
from crfqn.objectives.blocks import BlockedObjective
from crfqn.objectives.coordinates import split_coords
from crfqn.objectives.losses.likelihood import Likelihood
from crfqn.objectives.objective import Objective
from crfqn.structures.chain import Chain
from crfqn.structures.structure import Structure
from crfqn.structures.taxonomy import Taxonomy

LARGEST_BYTES = 4 * 10**9
FREE, PAID, FORBIDDEN = 0, 1, 2


class LearnedRows:
    """The items that weights learn from, and where the weights of sorted coordinates stand in dense rows.

    Items of weight 0 are left out: `n_items` counts the others. The order of the items is the caller's; where the data
    come in blocks, an epoch goes through one block after the other.

    Parameters
    ----------
    owner : the objective whose passes are counted
    parts : list of Objective over the same coordinates, the objective itself or its blocks

    Raises
    ------
    InputError
        If two arrays of such rows would be larger than `LARGEST_BYTES`.
    """

    def __init__(self, owner: Objective | BlockedObjective, parts: list[Objective]) -> None:
        self.owner, self.parts = owner, parts
        self.n_states, self.n_features = owner.n_states, parts[0].map.n_features
        item_weights = np.concatenate([part.weights for part in parts])
        self.items = np.flatnonzero(item_weights > 0)
        self.bounds = np.cumsum([0, *(part.n_items for part in parts)])
        self.n_rows = self.n_features + (self.n_states if parts[0].loss.n_edges else 0)
        self.width = -(-self.n_states // LANES) * LANES
        check_memory(self.n_rows, self.width, self.n_features, self.n_states)

    @property
    def n_items(self) -> int:
        """The items whose weight is not 0."""
        return self.items.size

    def runs(self, order: NDArray[np.integer]) -> Iterator[tuple[int, NDArray[np.int64]]]:
        """Yield each part that has some of the items `order`, numbers below `n_items`, and its items in their order."""
        chosen = self.items[order]
        part_of = np.searchsorted(self.bounds, chosen, side="right") - 1
        _, first = np.unique(part_of, return_index=True)
        for which in part_of[np.sort(first)]:
            yield which, chosen[part_of == which] - self.bounds[which]

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
        edge_from, edge_to = np.divmod(split.edges, self.n_states)
        return (
            np.concatenate([split.features, self.n_features + edge_from]),
            np.concatenate([split.states, edge_to]),
        )

    def patterns(self, unpenalised: Coords) -> tuple[NDArray[np.uint8], NDArray[np.int32]]:
        """Return the different rows of kinds (FREE, PAID or FORBIDDEN), (patterns, K), and which is whose, (rows,).

        Pattern 0 is PAID throughout. FORBIDDEN are the coordinates outside of the objective's support.
        """
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
            f"this method keeps dense arrays of features x states: {n_features} x {n_states} would take "
            f"{n_bytes / 1e9:.3g} GB, and at most {LARGEST_BYTES / 1e9:g} GB are allowed; choose another solver"
        )


def check_likelihood(objective: Objective) -> None:
    """Raise ViewError for other losses and structures and for offsets: online methods know none of them."""
    if not isinstance(objective.loss, Likelihood):
        raise ViewError(
            f"learning item by item needs a likelihood; the loss is {type(objective.loss).__name__}"
        )
    check_structure("learning item by item", objective.loss.structure)
    if objective.offset is not None:
        raise ViewError(
            "learning item by item knows scores of the weights alone; this objective has an offset"
        )


def check_structure(method: str, structure: Structure) -> None:
    """Raise ViewError for a structure that has no compiled updates."""
    if not isinstance(structure, (Chain, Taxonomy)):
        raise ViewError(f"{method} needs a chain or a taxonomy; the structure is {type(structure).__name__}")
