"""Projection onto the epigraph of a maximum, row by row: Chierchia et al. (2015), proposition 3.3.

Shapes: n rows, k columns.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from crfqn.arrays import Vector
from crfqn.errors import InputError
from crfqn.papers.chierchia2015.epigraph_kernels import epigraph_rows
from crfqn.projections import check_finite, checked, checked_method, finished, numbers


def project_epigraph(
    x: ArrayLike,
    height: ArrayLike,
    margins: ArrayLike = 0.0,
    *,
    method: str = "pivot",
    tol: float = 1e-3,
    out: Vector | None = None,
) -> tuple[Vector, Vector | float]:
    """Project (x, height) onto the epigraph {(p, t): max_k p_k + margin_k <= t} (Chierchia et al., proposition 3.3).

    The multiclass hinge of an item of class y is this maximum over x_k = s_k - s_y with margins 1, and 0 at k = y. The
    result is p = min(x, t - margins), with the one t >= height at which sum(x - p) = t - height.

    Parameters
    ----------
    x : array-like, shape (n, k) or (k,)
    height : float or array-like of shape (n,)
    margins : float, or array-like of shape (k,) or (n, k)
    method, tol, out
        As of `project_simplex`; a tolerance is relative to the distance max_k (x_k + margin_k) - height.

    Returns
    -------
    p : ndarray of float64, shape as x
    t : ndarray of float64, shape (n,); a float for a vector x
    """
    rows, heights, target = checked(x, "height", height, out, minimum=-np.inf)
    shift = numbers(margins, "margins")
    if shift.shape not in ((), (rows.shape[1],), rows.shape):
        raise InputError(
            f"margins: expected a number or shape {(rows.shape[1],)} or {rows.shape}, got {shift.shape}"
        )
    check_finite(shift, "margins")
    if shift.shape != rows.shape:
        shift = np.broadcast_to(shift, (1, rows.shape[1]))
    t = np.empty(len(rows))
    wrong = epigraph_rows(rows, heights, np.ascontiguousarray(shift), *checked_method(method, tol), target, t)
    p = finished(rows, wrong, target, x, out)
    return p, t if np.ndim(x) == 2 else float(t[0])
