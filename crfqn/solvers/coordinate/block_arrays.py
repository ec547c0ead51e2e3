"""State of an incremental loss: arrays by position and item, for the kernels.

Shapes: I items, N positions, K states; `width` is K rounded up to LANES. Rows of states are position-major.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from crfqn.arrays import Coords, Vector
from crfqn.kernels.rows import LANES, aligned_rows
from crfqn.objectives.losses.likelihood import LikelihoodEvaluation
from crfqn.objectives.losses.structured import StructuredLoss
from crfqn.objectives.point import Point
from crfqn.solvers.coordinate.chain_message_kernels import load_chains
from crfqn.solvers.coordinate.tree_block_kernels import load_trees
from crfqn.structures.chain import Chain
from crfqn.structures.taxonomy import Taxonomy

AT_ONCE = 64  # rows of exponentials: 16 KB of 32 states


class ChainState(NamedTuple):
    """State of the chain kernels; `solvers/coordinate/chain_message_kernels.py` names the entries of the first axes.

    Attributes
    ----------
    indptr, indices, values : the feature store; offsets : int64 (I + 1,); item_of : int64 (N,); targets : int32 (N,)
    rows : float64 (4, N, width): known scores, psi, forward and backward messages
    positions : float64 (3, N): the largest score, the largest less the smallest, the message's log scale
    items : float64 (6, I): weight, log Z, the targets' score; the last two after the latest trial; log Z less what
        the feature's stretch adds to it
    marks : int64 (3, I): the last valid forward and the first valid backward message; 1 for logarithms
    edges : float64 (3, K, K): as known, as tried last, observed counts
    factors : float64 (4, width, width): exp(edge - largest), its transpose, extremes, scratch
    exponents : int64 (AT_ONCE * width,), scratch; n_steps : int64 (2,), forward and backward messages computed
    """

    indptr: Coords
    indices: NDArray[np.integer]
    values: Vector
    offsets: Coords
    item_of: Coords
    targets: NDArray[np.int32]
    rows: Vector
    positions: Vector
    items: Vector
    marks: Coords
    edges: Vector
    factors: Vector
    exponents: Coords
    n_steps: Coords


class TreeState(NamedTuple):
    """State of the taxonomy kernels; `solvers/coordinate/tree_block_kernels.py` names the entries of the first axes.

    Attributes
    ----------
    indptr, indices, values : the feature store; parents : int32 (K,); is_label : bool (K,); targets : int32 (N,)
    rows : float64 (2, N, K), path sums and marginals
    items : float64 (6, N), as in `ChainState`, but in the last row Z of the latest trial, its largest term 1
    paths : float64 (K,), path sums of the latest move; exponents : int64 (K,), scratch
    n_steps : int64 (2,), ways down and ways up
    """

    indptr: Coords
    indices: NDArray[np.integer]
    values: Vector
    parents: NDArray[np.int32]
    is_label: NDArray[np.bool_]
    targets: NDArray[np.int32]
    rows: Vector
    items: Vector
    paths: Vector
    exponents: Coords
    n_steps: Coords


def prepare_chain(point: Point, loss: StructuredLoss, chain: Chain) -> ChainState:
    """Return the state at a point; messages are computed where they are asked for."""
    owner = point.objective
    n_states, n_positions, n_items = owner.n_states, owner.n_positions, owner.n_items
    observed = loss.observed_edges(owner.weights)
    scores, edges = chain.ruled(point.scores, point.edges)
    indptr, indices, values = owner.map.store.by_feature
    width = -(-n_states // LANES) * LANES
    state = ChainState(
        indptr=indptr,
        indices=indices,
        values=values,
        offsets=owner.map.offsets,
        item_of=np.repeat(np.arange(n_items), np.diff(owner.map.offsets)),
        targets=loss.targets,
        rows=aligned_rows(4 * n_positions, width).reshape(4, n_positions, width),
        positions=np.empty((3, n_positions)),
        items=item_numbers(point),
        marks=np.zeros((3, n_items), np.int64),
        edges=np.stack([edges.reshape(-1), edges.reshape(-1), observed]).reshape(3, n_states, n_states),
        factors=aligned_rows(4 * width, width).reshape(4, width, width),
        exponents=np.empty(AT_ONCE * width, np.int64),
        n_steps=np.zeros(2, np.int64),
    )
    state.rows[0, :, :n_states] = scores.T
    load_chains(state)
    return state


def prepare_tree(point: Point, loss: StructuredLoss, tree: Taxonomy) -> TreeState:
    """Return the state at a point, with the marginals of all items."""
    owner = point.objective
    indptr, indices, values = owner.map.store.by_feature
    state = TreeState(
        indptr=indptr,
        indices=indices,
        values=values,
        parents=tree.parents,
        is_label=tree.is_label,
        targets=loss.targets,
        rows=np.empty((2, owner.n_items, tree.n_states)),
        items=item_numbers(point),
        paths=np.zeros(tree.n_states),
        exponents=np.empty(tree.n_states, np.int64),
        n_steps=np.zeros(2, np.int64),
    )
    state.rows[0] = point.scores.T
    load_trees(state)
    return state


def item_numbers(point: Point) -> Vector:
    """Return each item's weight, log Z and targets' score, and three rows for the kernels, (6, I)."""
    numbers = np.zeros((6, point.objective.n_items))
    numbers[0] = point.objective.weights
    found = point.evaluation
    assert isinstance(found, LikelihoodEvaluation)
    numbers[1], numbers[2] = found.log_partition, found.target_score
    return numbers
