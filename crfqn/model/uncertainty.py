"""Measures of uncertainty sampling, which select the items to label next.

A measure is 0 if the model is certain of an item, and grows with its uncertainty (Settles and Craven: An analysis of
active learning strategies for sequence labeling tasks. EMNLP 2008).
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
    """A measure of uncertainty.

    n_best : number of labellings of a sequence that it needs
    value : returns it by item, (I,), given log P of the labellings or labels, (I, n), sorted from the most probable on
    and -inf for missing ones, and the numbers of positions, (I,), None for single items
    """

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


UNCERTAINTY_MEASURES = {
    "confidence": Measure(1, _confidence),
    "margin": Measure(2, _margin),
    "entropy": Measure(10, _entropy),
}


def find_measure(name: str) -> Measure:
    """Return a measure by its name; InputError, with the names, for any other."""
    if not isinstance(name, str) or name not in UNCERTAINTY_MEASURES:
        raise InputError(f"measure: expected one of {', '.join(UNCERTAINTY_MEASURES)}, got {describe(name)}")
    return UNCERTAINTY_MEASURES[name]
