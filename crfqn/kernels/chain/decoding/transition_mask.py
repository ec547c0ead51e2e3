"""Rules on neighbouring labels, as numbers that are added to scores: 0 where allowed, -inf where forbidden.

Inference over chains takes scores of -inf as they are: such a label or transition has the probability 0. Kernels that
make the scores themselves, item by item, add the rules here.

Shapes: K states, width = K rounded up to whole vector registers.
"""

from typing import NamedTuple

import numpy as np

from crfqn.kernels import subkernel


class TransitionMask(NamedTuple):
    """What is added to the scores of an item.

    edges : float64 (K, width), of transitions from state to state, or (0, width): all are allowed
    start, end : float64 (width,), of the states of an item's first and last position
    """

    edges: np.ndarray
    start: np.ndarray
    end: np.ndarray


@subkernel
def add_mask(edges, mask, masked):
    """Return edges + mask.edges, written into `masked`, (K, width); `edges` itself where no transition is forbidden."""
    if mask.edges.shape[0] == 0:
        return edges
    for j in range(mask.edges.shape[0]):
        for k in range(mask.edges.shape[1]):
            masked[j, k] = edges[j, k] + mask.edges[j, k]
    return masked


@subkernel
def mask_ends(scores, mask):
    """Add what the first and the last position of an item may not be, in place; scores float64 (T, width), T >= 1."""
    last = scores.shape[0] - 1
    for k in range(mask.start.size):
        scores[0, k] += mask.start[k]
        scores[last, k] += mask.end[k]
