"""Spans of neighbouring labels: which labels make one together, and where they stand in a labelling. Numpy alone.

Shapes: K states, N positions, I items, S spans.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from crfqn.arrays import Labels


class Spans(NamedTuple):
    """Spans of all items, in their order: positions starts ... stops - 1 and types, int64 (S,) each."""

    starts: NDArray[np.int64]
    stops: NDArray[np.int64]
    types: NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class SpanRules:
    """What makes a span of neighbouring states; type_of : int64 (K,), the type of each state, -1 for none; continues :
    bool (K, K), whether the second state belongs to the span of the first."""

    type_of: NDArray[np.int64]
    continues: NDArray[np.bool_]

    def find(self, states: Labels, offsets: NDArray[np.int64]) -> Spans:
        """Return the spans of a labelling, int (N,), in their order."""
        type_of = self.type_of[states]
        goes_on = np.zeros(states.size, bool)
        goes_on[1:] = self.continues[states[:-1], states[1:]] & (type_of[1:] >= 0)
        goes_on[offsets[:-1][np.diff(offsets) > 0]] = False
        starts = np.flatnonzero((type_of >= 0) & ~goes_on)
        behind = np.flatnonzero(~goes_on)  # the next span or the next position outside begins there
        ends = np.append(behind, states.size)
        stops = ends[np.searchsorted(behind, starts, side="right")]
        return Spans(starts, stops, type_of[starts])
