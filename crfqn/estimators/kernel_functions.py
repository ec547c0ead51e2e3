"""Kernel functions by the names and parameters of scikit-learn's SVC, computed by scikit-learn."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics.pairwise import linear_kernel, polynomial_kernel, rbf_kernel, sigmoid_kernel

from crfqn.arrays import Vector
from crfqn.errors import InputError

PRECOMPUTED = "precomputed"
NAMED: dict[str, Callable[..., NDArray]] = {
    "linear": linear_kernel,
    "poly": polynomial_kernel,
    "rbf": rbf_kernel,
    "sigmoid": sigmoid_kernel,
}
PARAMETERS = {
    "linear": (),
    "poly": ("gamma", "degree", "coef0"),
    "rbf": ("gamma",),
    "sigmoid": ("gamma", "coef0"),
}


@dataclass(frozen=True)
class KernelFunction:
    """Kernel between the rows of two matrices.

    Attributes
    ----------
    kernel : one of `NAMED`, or a function of two matrices (n, F), (m, F) that returns (n, m)
    gamma, degree, coef0 : float, parameters of scikit-learn's SVC, gamma resolved by `resolve_gamma`
    """

    kernel: Any
    gamma: float = 1.0
    degree: float = 3
    coef0: float = 0.0

    def __call__(self, x: Any, others: Any) -> NDArray:
        """Return kernel(x_i, others_j), (n, m)."""
        if callable(self.kernel):
            found = np.asarray(self.kernel(x, others))
            if found.shape != (x.shape[0], others.shape[0]):
                raise InputError(
                    f"kernel: expected the function to return shape {(x.shape[0], others.shape[0])}, got {found.shape}"
                )
            return found
        return NAMED[self.kernel](
            x, others, **{name: getattr(self, name) for name in PARAMETERS[self.kernel]}
        )

    @property
    def is_definite(self) -> bool:
        """Whether its matrices are positive semidefinite; of a function, which is taken to be a kernel, yes."""
        is_power = float(self.degree).is_integer() and self.coef0 >= 0  # with a series of coefficients >= 0
        return self.kernel != "sigmoid" and (self.kernel != "poly" or is_power)

    def diagonal(self, x: Any) -> Vector:
        """Return kernel(x_i, x_i), (n,)."""
        if self.kernel == "rbf":
            return np.ones(x.shape[0])
        if callable(self.kernel):
            return np.array([float(self(x[i : i + 1], x[i : i + 1])[0, 0]) for i in range(x.shape[0])])
        squares = (
            np.asarray((x.multiply(x)).sum(axis=1)).reshape(-1)
            if hasattr(x, "multiply")
            else (x * x).sum(axis=1)
        )
        if self.kernel == "linear":
            return squares
        inner = self.gamma * squares + self.coef0
        return inner**self.degree if self.kernel == "poly" else np.tanh(inner)


def resolve_gamma(gamma: Any, X: Any, weights: Vector | None = None) -> float:
    """Return the number that gamma stands for: "scale" is 1 / (F var(X)), "auto" 1 / F, as in scikit-learn.

    With weights (n,) an item counts in the variance as often as it counts in the loss.
    """
    if gamma != "scale":
        return 1.0 / X.shape[1] if gamma == "auto" else float(gamma)
    squares = X.multiply(X) if hasattr(X, "multiply") else np.square(X)
    sums = (np.asarray(table.sum(axis=1), np.float64).reshape(-1) for table in (X, squares))
    mean, mean_square = (np.average(found, weights=weights) / X.shape[1] for found in sums)
    variance = mean_square - mean**2
    return float(1.0 / (X.shape[1] * variance)) if variance > 0 else 1.0
