"""Which items of a chain are inferred eight at a time, one in each lane of a register, and which one by one."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from crfqn.kernels.forward_backward import CHUNK
from crfqn.threads import N_PARTS

MOST_STATES = 64  # more: the pair sums of eight lanes, K x K x 64 bytes, leave the second cache
LARGEST = 16 * CHUNK  # positions x states of the longest item: three arrays of eight such items are 786 KB
FEWEST_LANES = 3  # of eight: a row of lanes costs up to two and a half positions one by one
GROUPS = 16  # of eight items a part: cut finer, items sorted by length are no longer like their neighbours


def count_parts(n_items: int, n_states: int, n_lanes: int) -> int:
    """Return how many parts to cut the items into: by what the structure is, never by how many threads there are."""
    if n_states > MOST_STATES:
        return N_PARTS
    return min(max(1, n_items // (GROUPS * n_lanes)), N_PARTS)


class ItemPart(NamedTuple):
    """The items of a part, none of them empty.

    Attributes
    ----------
    in_lanes : int64 (n,), from the longest to the shortest, so that neighbours are of similar length
    longest : the largest of their lengths
    one_by_one : int64 (n,), ascending
    """

    in_lanes: NDArray[np.int64]
    longest: int
    one_by_one: NDArray[np.int64]


def split_part(first: int, last: int, lengths: NDArray[np.int64], n_states: int, n_lanes: int) -> ItemPart:
    """Share out the items first ... last - 1 of the given lengths, (I,).

    Items of which eight would not fit into the cache go one by one, and so do all where on average fewer than
    FEWEST_LANES lanes would be filled.
    """
    items = first + np.flatnonzero(lengths[first:last])
    nothing = items[:0]
    if n_states > MOST_STATES:
        return ItemPart(nothing, 0, items)
    is_short = lengths[items] * n_states <= LARGEST
    short = items[is_short]
    in_lanes = short[np.argsort(-lengths[short], kind="stable")]
    longest_of_groups = lengths[in_lanes[::n_lanes]]
    if lengths[in_lanes].sum() < FEWEST_LANES * longest_of_groups.sum() or not in_lanes.size:
        return ItemPart(nothing, 0, items)
    return ItemPart(in_lanes, int(longest_of_groups[0]), items[~is_short])
