"""Functions of predictions that calibrate them: G(y) of Agarwal et al. (2014), Algorithm 2."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from crfqn.arrays import Vector
from crfqn.errors import InputError

CUBIC = (1, 2, 3)


def check_basis(basis: Any) -> None:
    """Raise InputError unless a basis is a transformer, or a sequence of powers, 1 among them."""
    if is_powers(basis):
        if 1 not in basis:  # or a calibration could make predictions worse
            raise InputError(f"basis: expected powers with 1 among them, got {basis!r}")
    elif not hasattr(basis, "fit_transform"):
        raise InputError(
            f"basis: expected powers such as {CUBIC}, or a scikit-learn transformer, got {basis!r}"
        )


def is_powers(basis: Any) -> bool:
    """Return whether a basis is a sequence of whole numbers from 1 on."""
    return (
        isinstance(basis, Sequence)
        and bool(basis)
        and all(
            isinstance(power, (int, np.integer)) and not isinstance(power, bool) and power >= 1
            for power in basis
        )
    )


def powers_of(basis: Any, predictions: Vector) -> Vector:
    """Return the powers of the predictions (K, N), stacked, (K len(basis), N)."""
    return np.concatenate([predictions**power for power in basis])


class Basis:
    """Powers, or a transformer that is fitted to the first predictions it sees.

    A transformer's features come after the predictions themselves, so that a calibration cannot make these worse.
    """

    def __init__(self, basis: Any) -> None:
        self.basis = basis
        self.fitted: Any = None

    def __call__(self, predictions: Vector) -> Vector:
        """Return the m functions of predictions (K, N), (m, N)."""
        if is_powers(self.basis):
            return powers_of(self.basis, predictions)
        if self.fitted is None:
            from sklearn.base import clone

            self.fitted = clone(self.basis).fit(predictions.T)
        more = self.fitted.transform(predictions.T)
        more = more.toarray() if hasattr(more, "toarray") else np.asarray(more, np.float64)
        return np.concatenate([predictions, more.T])
