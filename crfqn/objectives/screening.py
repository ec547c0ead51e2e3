"""The full gradient, read feature block by feature block: which coordinates stand out, and how far.

No array of F x K numbers exists: a block's gradients live in a small buffer until those above the threshold
are picked out. Cost: every stored entry of the data times K, the most expensive sweep of all; so a solver
screens a handful of times in a run.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from crfqn.kernels.columns import feature_gradients
from crfqn.kernels.rows import LANES, aligned_rows

if TYPE_CHECKING:
    from crfqn.objectives.crf import CRFObjective
    from crfqn.structures.structure import Inference

SLAB_NUMBERS = 1 << 16  # residuals walked at a time: 512 KB, half of an L2 cache
BLOCK_NUMBERS = 1 << 11  # gradients in a block: 16 KB, they share the L1 cache with the residuals


@dataclass(frozen=True, eq=False)
class Screening:
    """Coordinates with |gradient| above a threshold.

    Attributes
    ----------
    coords : ndarray of int64, sorted
    gradient : ndarray of float64, same shape
    largest : float, the largest |gradient| of all coordinates, those below the threshold included
    """

    coords: NDArray[np.int64]
    gradient: NDArray[np.float64]
    largest: float


def by_position(rows: NDArray[np.float64], objective: CRFObjective) -> NDArray[np.float64]:
    """Copy label-major (K, N) to position-major (N, width), width = K rounded up to whole registers."""
    n_states, n_positions = rows.shape
    width = -(-n_states // LANES) * LANES
    out = aligned_rows(n_positions, width)
    step = 4096

    def run(part: int) -> None:
        stretch = slice(part * step, (part + 1) * step)
        out[stretch, :n_states] = rows[:, stretch].T

    objective.pool.each(-(-n_positions // step), run)
    return out


def screen(objective: CRFObjective, inference: Inference, threshold: float) -> Screening:
    """Every coordinate, edges included, with |gradient| > threshold."""
    store, n_states = objective.store, objective.structure.n_states
    residual = by_position(inference.residual, objective)
    width = residual.shape[1]
    block = max(1, BLOCK_NUMBERS // width)
    slab = max(64, SLAB_NUMBERS // width)
    n_blocks = -(-store.n_features // block)
    found: list[tuple[NDArray[np.int64], NDArray[np.float64]]] = [
        (np.empty(0, np.int64), np.empty(0))
    ] * n_blocks
    largest = np.zeros(n_blocks + 1)

    def run(part: int) -> None:
        first, last = part * block, min((part + 1) * block, store.n_features)
        out = aligned_rows(last - first, width)
        feature_gradients(first, last, slab, store.indptr, store.indices, store.values, residual, out)
        gradient = out[:, :n_states]
        size = np.abs(gradient)
        largest[part] = size.max()
        if largest[part] > threshold:
            features, states = np.nonzero(size > threshold)
            found[part] = states * store.n_features + features + first, gradient[features, states]

    objective.pool.each(n_blocks, run)
    edge_size = np.abs(inference.edge_residual)
    edges = np.flatnonzero(edge_size > threshold)
    largest[-1] = edge_size.max(initial=0.0)
    coords = np.concatenate([c for c, _ in found] + [edges + n_states * store.n_features])
    gradient = np.concatenate([g for _, g in found] + [inference.edge_residual[edges]])
    order = np.argsort(coords)
    return Screening(coords[order], gradient[order], float(largest.max()))
