"""When bounds by items (`Point.item_bound`) are worth their price along a run."""

from __future__ import annotations

import numpy as np

PRICE = 30.0  # passes that a bound costs, about
FEWEST_PASSES = PRICE
GROWTH = 1.3


class BoundSchedule:
    """When bounds by items are worth their price along a run."""

    def __init__(self) -> None:
        self.due, self.value = FEWEST_PASSES, np.inf

    def is_due(self, n_passes: float, value: float, tol: float) -> bool:
        """Whether to look for a bound after so many passes, asked with the least objective at each scan: while it still
        falls by more than the tolerance from scan to scan no bound can be near."""
        has_settled = self.value - value <= tol * abs(value)
        self.value = value
        return has_settled and n_passes >= self.due

    def looked(self, n_passes: float) -> None:
        """Wait after a look until the passes have grown by a share that makes its price a part of theirs."""
        self.due = max(GROWTH * n_passes, n_passes + PRICE)
