"""The largest useful strength of a penalty: the smallest under which all penalised weights are zero.

All of it is told by the gradient at a point where they are zero and the weights without penalty are solved.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from crfqn.solvers.protocols import Objective, Point

LARGEST_GRADIENT = 1e300


def largest_strength(name: str, objective: Objective, penalty: Any, point: Point) -> float:
    """Return the smallest l1 or group_l1 (`name`) of a penalty, the others given, under which no weight leaves zero.

    That is the largest |gradient| of a penalised coordinate, or the largest dual norm of a penalised group, found by
    scans for gradients above a threshold that falls by halves; 0 where no gradient is left.
    """
    threshold = objective.total_weight
    while threshold < LARGEST_GRADIENT and point.screen(threshold).coords.size:
        threshold *= 4.0
    lowest = 1e-12 * threshold
    while threshold > lowest:
        threshold /= 2.0
        if name == "l1":
            found = point.screen(threshold)
            sizes = np.abs(found.gradient[~np.isin(found.coords, penalty.unpenalised)])
        else:
            found = replace(penalty, group_l1=threshold).screen(point)
            local = penalty.at(found.coords)
            sizes = local.dual_norms(found.gradient)[local.group > 0]
        largest = float(sizes.max(initial=0.0))
        if largest > threshold:
            return largest
    return 0.0
