"""Random projections as features: a non-linearity of x . omega + b, omega and b drawn from a seed.

Random Fourier features, cos(x . omega + b) with omega normal of variance 2 / s and b uniform, approximate the Gaussian
kernel exp(-||x - x'||^2 / s): Rahimi and Recht (NIPS 2007). Shapes as in `sources.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from crfqn.errors import InputError
from crfqn.papers.agarwal2014.sources import (
    Batch,
    Source,
    check_count,
    check_number,
    draws,
    result_dtype,
    sample_rows,
)

FOURIER = "cos"


# Each works in place.
NONLINEARITIES: Mapping[str, Callable[[NDArray], NDArray]] = {
    FOURIER: lambda x: np.cos(x, out=x),
    "relu": lambda x: np.maximum(x, 0.0, out=x),
    "tanh": lambda x: np.tanh(x, out=x),
    "abs": lambda x: np.abs(x, out=x),
    "square": lambda x: np.square(x, out=x),
}


@dataclass(frozen=True, eq=False)
class ProjectionBatch(Batch):
    """Batch of the features f(x . omega_j + b_j), j = 1 ... p: omega float64 (d, p), shifts float64 (p,)."""

    omega: NDArray[np.float64]
    shifts: NDArray[np.float64]
    nonlinearity: str

    @property
    def n_features(self) -> int:  # type: ignore[override]
        return self.shifts.size

    def transform(self, rows: Any, columns: Any = slice(None)) -> NDArray[np.floating]:
        dtype = result_dtype(rows)
        rows = rows if rows.dtype == dtype else rows.astype(dtype)
        found = rows @ np.ascontiguousarray(self.omega[:, columns], dtype)
        found += self.shifts[columns].astype(dtype)
        return NONLINEARITIES[self.nonlinearity](found)


@dataclass(frozen=True)
class Projections(Source):
    """Source of random projections of rows of d numbers; spread: the standard deviation of the entries of omega."""

    KIND: ClassVar[str] = "projections"

    n_inputs: int
    spread: float
    nonlinearity: str
    seed: int

    def batch(self, number: int, size: int) -> ProjectionBatch:
        random = draws(self.seed, number)
        omega = self.spread * random.normal(size=(self.n_inputs, size))
        is_wave = self.nonlinearity == FOURIER
        shifts = random.uniform(0.0, 2.0 * np.pi, size) if is_wave else random.normal(size=size)
        return ProjectionBatch(omega, shifts, self.nonlinearity)

    @classmethod
    def restored(cls, table: Mapping[str, Any], arrays: Mapping[str, NDArray]) -> Projections:
        if table["nonlinearity"] not in NONLINEARITIES:
            raise ValueError(
                f"nonlinearity: expected one of {[*NONLINEARITIES]}, got {table['nonlinearity']!r}"
            )
        return cls(
            check_count(table, "n_inputs"),
            check_number(table, "spread", 0.0),
            table["nonlinearity"],
            check_count(table, "seed"),
        )


@dataclass(frozen=True)
class RandomFourier:
    """Generator of random Fourier features cos(x . omega + b) of the Gaussian kernel exp(-||x - x'||^2 / scale).

    Parameters
    ----------
    scale : float > 0, optional
        s; by default the median of ||x - x'||^2 over pairs of up to 1,000 rows.
    """

    scale: float | None = None

    def fit(self, blocks: Iterable[Any], seed: int) -> Projections:
        rows = sample_rows(blocks)
        scale = median_distance(rows) if self.scale is None else checked_scale(self.scale)
        return Projections(rows.shape[1], float(np.sqrt(2.0 / scale)), FOURIER, seed)


@dataclass(frozen=True)
class RandomProjections:
    """Generator of projections in random directions with a non-linearity, f(x . omega + b), b normal.

    Parameters
    ----------
    nonlinearity : {"relu", "tanh", "abs", "square"}
    scale : float > 0, optional
        The variance of x . omega is ||x||^2 / scale; by default the mean of ||x||^2 over up to 1,000 rows.
    """

    nonlinearity: str = "relu"
    scale: float | None = None

    def fit(self, blocks: Iterable[Any], seed: int) -> Projections:
        known = [name for name in NONLINEARITIES if name != FOURIER]
        if self.nonlinearity not in known:
            raise InputError(f"nonlinearity: expected one of {known}, got {self.nonlinearity!r}")
        rows = sample_rows(blocks)
        usual = float(np.square(rows).sum(axis=1).mean()) or 1.0
        scale = usual if self.scale is None else checked_scale(self.scale)
        return Projections(rows.shape[1], float(scale**-0.5), self.nonlinearity, seed)


def checked_scale(scale: float) -> float:
    """Return the scale; InputError unless it is a finite number > 0."""
    if not (np.isfinite(scale) and scale > 0):
        raise InputError(f"scale: expected None or a finite number > 0, got {scale!r}")
    return scale


def median_distance(rows: NDArray[np.float64]) -> float:
    """Return the median of the squared distances between different rows, 1 if most of them are the same."""
    norms = np.square(rows).sum(axis=1)
    squares = norms[:, None] + norms - 2.0 * rows @ rows.T
    above = squares[np.triu_indices(len(rows), 1)]
    median = float(np.median(above)) if above.size else 0.0
    return median if median > 1e-12 * float(norms.max(initial=0.0)) else 1.0
