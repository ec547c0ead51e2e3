"""The norm of functions that a kernel expands: l2/2 sum_k a_k' K a_k over the states k, K the Gram matrix.

It is l2/2 ||w||^2 of the weights in the kernel's feature space, which nobody sees.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from crfqn.penalties.elastic_net import NO_COORDS, check_strengths

Vector = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class KernelNorm:
    """l2/2 sum_k a_k' K a_k.

    Parameters
    ----------
    product : function of sorted coordinates and values (n,) that returns K a at each of them, (n,)
    l2 : float > 0
    """

    product: Callable[[NDArray[np.int64], Vector], Vector]
    l2: float

    def __post_init__(self) -> None:
        check_strengths(self, "l2")

    @property
    def l1(self) -> float:
        """No L1."""
        return 0.0

    @property
    def dual_radius(self) -> float:
        """No kinks."""
        return 0.0

    @property
    def is_separable(self) -> bool:
        """Whether it is a sum over coordinates: no."""
        return False

    @property
    def unpenalised(self) -> NDArray[np.int64]:
        """Nothing is without penalty."""
        return NO_COORDS

    def value(self, coords: NDArray[np.int64], w: Vector) -> float:
        """Return the penalty at w."""
        return 0.5 * self.l2 * float(w @ self.product(coords, w)) if w.size else 0.0
