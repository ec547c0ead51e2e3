"""A symmetric matrix factorised once, for many right-hand sides: the metric of generalised least squares.

Shapes: F features, K right-hand sides.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import LinAlgError, cholesky, solve_triangular

from crfqn.arrays import Coords, Vector
from crfqn.solvers.protocols import Objective, Penalty

FIRST_SHIFT = 4.0  # times F roundings, of a diagonal of ones: what a sum of products may be off
GROWTH = 100.0  # of the shift, where that was not enough


@dataclass(frozen=True, eq=False)
class Factor:
    """The Cholesky factor of a matrix with a ridge; build it with `of`.

    Attributes
    ----------
    lower : float64 (F, F), lower triangular
    scales : float64 (F,): of the variables in which the diagonal is 1
    shift : what was added to that diagonal, so that a matrix without full rank has a factor: some roundings
    """

    lower: Vector
    scales: Vector
    shift: float

    @classmethod
    def of(cls, matrix: Vector, ridge: Vector | float = 0.0) -> Factor:
        """Factorise matrix + diag(ridge), positive semidefinite (F, F): F^3 / 3 operations.

        The diagonal is scaled to 1 before, so that the units of the features make no difference.
        """
        diagonal = np.diag(matrix) + ridge
        scales = 1.0 / np.sqrt(np.where(diagonal > 0, diagonal, 1.0))
        scaled = matrix * scales[:, None] * scales
        shift = FIRST_SHIFT * diagonal.size * float(np.finfo(np.float64).eps)
        while True:
            np.fill_diagonal(scaled, 1.0 + shift)
            try:
                # A zero diagonal is that of a feature which is always 0: it keeps to itself.
                return cls(cholesky(scaled, lower=True, check_finite=False), scales, shift)
            except LinAlgError:
                shift *= GROWTH

    def solve(self, table: Vector) -> Vector:
        """Return the table, (K, F), with the inverse applied to each row."""
        return self.half_solve(self.half_solve(table), transposed=True)

    def half_solve(self, table: Vector, transposed: bool = False) -> Vector:
        """Return the table, (K, F), with R^-1, or R'^-1, applied to each row; the matrix is R R'."""
        scaled = table if transposed else table * self.scales
        found = solve_triangular(
            self.lower, scaled.T, lower=True, trans=int(transposed), check_finite=False
        ).T
        return found * self.scales if transposed else found

    def half_times(self, table: Vector) -> Vector:
        """Return the table, (K, F), with R' applied to each row."""
        return (table / self.scales) @ self.lower


def metric(objective: Objective, penalty: Penalty, coords: Coords) -> tuple[Factor, int]:
    """Return the factor of M + l2, and the number of features, F."""
    n_features = objective.n_features
    ridge = penalty.l2_of(coords).reshape(-1, n_features)
    return Factor.of(objective.gram(), ridge.max(axis=0)), n_features
