"""The norm of functions that a kernel expands: l2/2 sum_k a_k' K a_k over the states k, K the Gram matrix.

It is l2/2 ||w||^2 of the weights in the kernel's feature space, which nobody sees.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from crfqn.arrays import NO_COORDS, Coords, Vector
from crfqn.penalties.penalty import Penalty, check_strengths


@dataclass(frozen=True, eq=False)
class KernelNorm(Penalty):
    """l2/2 sum_k a_k' K a_k.

    Parameters
    ----------
    product : function of sorted coordinates and values (n,) that returns K a at each of them, (n,)
    l2 : float > 0
    """

    product: Callable[[NDArray[np.int64], Vector], Vector]
    l2: float
    l1: float = field(default=0.0, init=False)
    unpenalised: Coords = field(default_factory=lambda: NO_COORDS, init=False)

    def __post_init__(self) -> None:
        check_strengths(self, "l2")

    @property
    def dual_radius(self) -> float:
        """The largest |gradient| that a zero can have at an optimum: there are no kinks."""
        return 0.0

    @property
    def is_quadratic(self) -> bool:
        """Whether it is l2/2 ||w||^2 alone: of the weights in the feature space, yes."""
        return True

    def value(self, coords: Coords, w: Vector) -> float:
        """Return the penalty at w."""
        return 0.5 * self.l2 * float(w @ self.product(coords, w)) if w.size else 0.0
