"""Rules that choose a strength from data, each with one constant that serves many sets, and one more left out.

A rule is constant x quantity. What it loses on a set is the test score of the strength that validation would choose
less that of the rule's. The best constant of some sets is that whose largest loss over them is least; of a set left
out, the loss with the best constant of all others is shown: what a user of new data would have got.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from defaults_study.curves import Curve

CONSTANTS = np.geomspace(1e-4, 10.0, 201)


@dataclass(frozen=True)
class Rule:
    """A quantity of a set's training items that strengths are proportional to."""

    title: str
    quantity: Callable[[Curve], float]

    def losses(self, curves: Sequence[Curve]) -> np.ndarray:
        """What each constant loses on each set, (constants, sets)."""
        return np.array([[curve.lost_at(c * self.quantity(curve)) for curve in curves] for c in CONSTANTS])

    def best(self, curves: Sequence[Curve]) -> tuple[float, np.ndarray]:
        """The constant with the least largest loss, the middle of equal ones; and what it loses on each set."""
        losses = self.losses(curves)
        chosen = middle_of_least(losses.max(axis=1))
        return float(CONSTANTS[chosen]), losses[chosen]

    def left_out(self, curves: Sequence[Curve]) -> list[tuple[float, float]]:
        """For each set the best constant of all others, and what it loses on this one."""
        losses, found = self.losses(curves), []
        for i in range(len(curves)):
            chosen = middle_of_least(np.delete(losses, i, axis=1).max(axis=1))
            found.append((float(CONSTANTS[chosen]), float(losses[chosen, i])))
        return found


def middle_of_least(values: np.ndarray, slack: float = 0.05) -> int:
    """The middle of those that are hardly larger than the least."""
    near = np.flatnonzero(values <= max(values.min(), 0.0) + slack)  # to beat the tuned one is luck
    return int(near[near.size // 2])


RULES = (
    Rule("noise of gradients", lambda curve: curve.noise),
    Rule("noise of a row's gradients", lambda curve: curve.noise * np.sqrt(curve.n_labels)),
    Rule("largest useful strength", lambda curve: curve.largest),
    Rule("scale of the features", lambda curve: curve.scale),
    Rule("one number for all", lambda curve: 1.0),
)
