"""How unsure a model is of an item: measures of uncertainty sampling, by which one chooses what to label next.

Each is 0 where the model is sure, and the larger the less sure it is (Settles and Craven: An analysis of active
learning strategies for sequence labeling tasks. EMNLP 2008).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from crfqn.arrays import Vector
from crfqn.errors import InputError
from crfqn.messages import describe


class Measure(NamedTuple):
    """A measure: of how many labellings of a sequence, and their value by item, (I,), of log P of the most probable
    labellings or labels, (I, n), the most probable first and -inf for none, and of the numbers of positions, (I,), None
    for items with one label each."""

    n_best: int
    value: Callable[[Vector, NDArray[np.int64] | None], Vector]


def _confidence(logs: Vector, n_positions: NDArray[np.int64] | None) -> Vector:
    if n_positions is None:
        return -np.expm1(logs[:, 0])
    return -logs[:, 0] / np.maximum(n_positions, 1)


def _margin(logs: Vector, n_positions: NDArray[np.int64] | None) -> Vector:
    p = np.exp(logs)
    return 1.0 - p[:, 0] + p[:, 1:2].sum(axis=1)


def _entropy(logs: Vector, n_positions: NDArray[np.int64] | None) -> Vector:
    logs = logs - logs[:, :1]
    p = np.exp(logs)
    total = p.sum(axis=1)
    return np.log(total) - (p * np.maximum(logs, -1e3)).sum(axis=1) / total


MEASURES = {
    "confidence": Measure(1, _confidence),
    "margin": Measure(2, _margin),
    "entropy": Measure(10, _entropy),
}


def find_measure(name: str) -> Measure:
    """Return a measure by its name; InputError, listing the names, for another."""
    if not isinstance(name, str) or name not in MEASURES:
        raise InputError(f"measure: expected one of {', '.join(MEASURES)}, got {describe(name)}")
    return MEASURES[name]
