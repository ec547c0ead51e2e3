"""The largest useful strength of a penalty: the smallest under which all penalised weights are zero.

All of it is told by the gradient at a point where they are zero and the weights without penalty are solved.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from crfqn.solvers.protocols import Objective, Point

LARGEST_GRADIENT = 1e300


def largest_strength(name: str, objective: Objective, penalty: Any, point: Point) -> float:
    """Return the smallest `l1` or `group_l1` of a penalty, the others given, under which no weight leaves zero.

    0 where none would without it. Parameters: name : "l1" or "group_l1"; point : as above
    """
    return (
        largest_gradient(objective, penalty, point)
        if name == "l1"
        else largest_group(objective, penalty, point)
    )


def largest_gradient(objective: Objective, penalty: Any, point: Point) -> float:
    """Return the largest |gradient| of a penalised coordinate."""
    for threshold in falling(objective, point):
        found = point.screen(threshold)
        size = np.abs(found.gradient[~np.isin(found.coords, penalty.unpenalised)])
        if size.size:
            return float(size.max())
    return 0.0


def largest_group(objective: Objective, penalty: Any, point: Point) -> float:
    """Return the largest dual norm of a penalised group, a row or a block of features."""
    for threshold in falling(objective, point):
        found = replace(penalty, group_l1=threshold).screen(point)
        local = penalty.at(found.coords)
        largest = float(local.dual_norms(found.gradient)[local.group > 0].max(initial=0.0))
        if largest > threshold:
            return largest
    return 0.0


def falling(objective: Any, point: Point) -> Iterator[float]:
    """Yield thresholds for gradient scans, descending by halves from one that no gradient exceeds."""
    threshold = objective.total_weight
    while threshold < LARGEST_GRADIENT and point.screen(threshold).coords.size:
        threshold *= 4.0
    lowest = 1e-12 * threshold
    while threshold > lowest:
        threshold /= 2.0
        yield threshold
