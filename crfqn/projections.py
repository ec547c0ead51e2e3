"""Euclidean projections onto convex sets, and the proximal maps of the dual norms, row by row.

    project_simplex      {b >= 0, sum b = radius}
    project_l1_ball      {sum |b| <= radius}; prox_linf(x) = x - project_l1_ball(x)
    project_linf_ball    {max |b| <= radius}; prox_l1(x) = x - project_linf_ball(x)
    project_halfspace    {<normal, b> <= bound}
    project_epigraph     {(p, t): max_k p_k + margin_k <= t}, of `papers/chierchia2015/epigraphs.py`

A matrix is projected row by row; a vector is a matrix of one row. A radius is one number or one number a row. `out` may
be the input itself. Results are float64; the same call gives the same bits.

References
----------
Duchi, Shalev-Shwartz, Singer, Chandra: Efficient projections onto the l1-ball. ICML 2008.
Blondel, Fujino, Ueda: Large-scale multiclass support vector machine training via Euclidean projection onto the simplex.
ICPR 2014.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from crfqn.arrays import Vector
from crfqn.errors import InputError
from crfqn.kernels.projection import BISECTION, PIVOT, SORT, simplex_rows
from crfqn.registry import find

SIMPLEX_METHODS = {"sort": SORT, "pivot": PIVOT, "bisection": BISECTION}
MAX_SIZE = 1e300  # numerical guard: sums over 10^8 columns of this size are finite

project_epigraph: Callable[..., Vector]  # see `__getattr__`

__all__ = [
    "project_epigraph", "project_halfspace", "project_l1_ball", "project_linf_ball", "project_simplex", "prox_l1",
    "prox_linf",
]  # fmt: skip


def __getattr__(name: str) -> Callable[..., Vector]:
    """Import `project_epigraph` from the folder of its paper."""
    if name == "project_epigraph":
        return find(name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def project_simplex(
    x: ArrayLike,
    radius: ArrayLike = 1.0,
    *,
    method: str = "pivot",
    tol: float = 1e-3,
    out: Vector | None = None,
) -> Vector:
    """Project onto the positive simplex: argmin ||b - x|| over b >= 0, sum b = radius.

    The result is max(x - t, 0). The level t of each row is computed by

    - "sort": sorting the entries above t in descending order (Blondel et al., Algorithm 2), O(k log k);
    - "pivot": random pivots (Duchi et al., figure 2), expected O(k); the sequence of random numbers is fixed;
    - "bisection": bisection (Blondel et al., Algorithm 3), O(k) a step, until the sum is right within tol * radius.

    Parameters
    ----------
    x : array-like, shape (n, k) or (k,), k >= 1
        Finite numbers of a size up to 1e300.
    radius : float or array-like of shape (n,), >= 0
    method : {"pivot", "sort", "bisection"}, default "pivot"
    tol : float >= 0, default 1e-3
        Relative tolerance of the bisection; 0 for the accuracy of floats.
    out : ndarray of float64, shape as x, optional
        Array for the result; x itself for a projection in place.

    Returns
    -------
    ndarray of float64, shape as x

    Raises
    ------
    InputError
        For other shapes and values.

    Notes
    -----
    Entries that cannot be above t are excluded first, by the largest entry and up to six steps of Newton's method
    (Michelot 1986). With "sort" this is done in rows of up to 128 entries only.

    Examples
    --------
    >>> from crfqn.projections import project_simplex
    >>> project_simplex([0.5, 1.5, -1.0]).tolist()
    [0.0, 1.0, 0.0]
    >>> project_simplex([[1.0, 0.5], [3.0, 4.0]], radius=[1.0, 4.0]).tolist()
    [[0.75, 0.25], [1.5, 2.5]]
    """
    rows, radii, target = checked(x, "radius", radius, out)
    return finished(rows, simplex_rows(rows, radii, *checked_method(method, tol), target), target, x, out)


def project_l1_ball(
    x: ArrayLike,
    radius: ArrayLike = 1.0,
    *,
    method: str = "pivot",
    tol: float = 1e-3,
    out: Vector | None = None,
) -> Vector:
    """Project onto the L1 ball: argmin ||b - x|| over sum |b| <= radius; parameters as of `project_simplex`.

    Outside of the ball the result is the projection of |x| onto the simplex, with the signs of x.
    """
    rows, radii, target = checked(x, "radius", radius, out)
    target[...] = on_ball(rows, radii, method, tol)
    return finished(rows, -1, target, x, out)


def prox_linf(
    x: ArrayLike,
    strength: ArrayLike = 1.0,
    *,
    method: str = "pivot",
    tol: float = 1e-3,
    out: Vector | None = None,
) -> Vector:
    """Return argmin_b 1/2 ||b - x||^2 + strength max |b|, which is x minus its projection onto the L1 ball.

    The largest entries are clipped to one size. Parameters as of `project_simplex`, the strength as its radius.
    """
    rows, radii, target = checked(x, "strength", strength, out)
    np.subtract(rows, on_ball(rows, radii, method, tol), out=target)
    return finished(rows, -1, target, x, out)


def project_linf_ball(x: ArrayLike, radius: ArrayLike = 1.0, *, out: Vector | None = None) -> Vector:
    """Project onto {max |b| <= radius}: clip every entry; parameters as of `project_simplex`."""
    rows, radii, target = checked(x, "radius", radius, out)
    check_finite(rows)
    np.clip(rows, -radii[:, None], radii[:, None], out=target)
    return finished(rows, -1, target, x, out)


def prox_l1(x: ArrayLike, strength: ArrayLike = 1.0, *, out: Vector | None = None) -> Vector:
    """Return argmin_b 1/2 ||b - x||^2 + strength sum |b|: the soft threshold, x minus its clipped entries.

    Parameters as of `project_simplex`, the strength as its radius.
    """
    rows, radii, target = checked(x, "strength", strength, out)
    check_finite(rows)
    np.subtract(rows, np.clip(rows, -radii[:, None], radii[:, None]), out=target)
    return finished(rows, -1, target, x, out)


def project_halfspace(
    x: ArrayLike, normal: ArrayLike, bound: ArrayLike = 0.0, *, out: Vector | None = None
) -> Vector:
    """Project onto {b: <normal, b> <= bound}.

    Parameters
    ----------
    x : array-like, shape (n, k) or (k,)
    normal : array-like, shape (k,), or (n, k) for a normal of each row
    bound : float or array-like of shape (n,)
    out : ndarray of float64, shape as x, optional

    Raises
    ------
    InputError
        Also if the half-space is empty: a normal of zeros and a bound below 0.
    """
    rows, bounds, target = checked(x, "bound", bound, out, minimum=-np.inf)
    check_finite(rows)
    a = numbers(normal, "normal")
    if a.shape not in ((rows.shape[1],), rows.shape):
        raise InputError(f"normal: expected shape {(rows.shape[1],)} or {rows.shape}, got {a.shape}")
    check_finite(a, "normal")
    a = np.broadcast_to(a, rows.shape)
    largest = np.abs(a).max(axis=1)
    if np.any(empty := (largest == 0) & (bounds < 0)):
        raise InputError(
            f"expected half-spaces that are not empty, row {int(np.argmax(empty))} has <0, b> <= a bound below 0"
        )
    scale = np.where(largest > 0, largest, 1.0)  # squares of a / scale neither overflow nor underflow
    unit = a / scale[:, None]
    outside = np.maximum(np.einsum("ij,ij->i", unit, rows) - bounds / scale, 0.0)
    squares = np.maximum(np.einsum("ij,ij->i", unit, unit), 1.0)  # below 1 only for a normal of zeros
    np.subtract(rows, (outside / squares)[:, None] * unit, out=target)
    return finished(rows, -1, target, x, out)


def on_ball(rows: Vector, radii: Vector, method: str, tol: float) -> Vector:
    """Return the projections of rows onto L1 balls. For a row outside of its ball it is the projection of the absolute
    values onto the simplex, with the signs of the row."""
    code, tol = checked_method(method, tol)
    check_finite(rows)
    sizes = np.abs(rows)
    outside = np.flatnonzero(sizes.sum(axis=1) > radii)
    result, nearest = rows.copy(), np.ascontiguousarray(sizes[outside])
    simplex_rows(nearest, radii[outside], code, tol, nearest)
    result[outside] = np.copysign(nearest, rows[outside])
    return result


def numbers(values: ArrayLike, name: str) -> Vector:
    """Return real numbers as float64, or raise InputError."""
    array = np.asarray(values)
    if array.dtype.kind not in "biuf":
        raise InputError(f"{name}: expected real numbers, got dtype {array.dtype}")
    return array.astype(np.float64, copy=False)


def checked(
    x: ArrayLike, name: str, radius: ArrayLike, out: Vector | None, minimum: float = 0.0
) -> tuple[Vector, Vector, Vector]:
    """Return x as contiguous rows (n, k), the radii (n,), and rows for the result, those of `out` if contiguous."""
    shape = (array := numbers(x, "x")).shape
    if array.ndim not in (1, 2) or shape[-1] == 0:
        raise InputError(f"x: expected a matrix or a vector with at least one column, got shape {shape}")
    rows = np.ascontiguousarray(array.reshape(-1, shape[-1]))
    radii = numbers(radius, name)
    if radii.shape not in ((), (len(rows),)):
        raise InputError(f"{name}: expected a number or shape {(len(rows),)}, got shape {radii.shape}")
    wrong = np.atleast_1d(~((radii >= minimum) & (np.abs(radii) <= MAX_SIZE)))
    if wrong.any():
        bounds = (
            f"from {minimum:g} to {MAX_SIZE:g}"
            if np.isfinite(minimum)
            else f"of at most {MAX_SIZE:g} in size"
        )
        raise InputError(f"{name}: expected numbers {bounds}, got {np.atleast_1d(radii)[np.argmax(wrong)]}")
    if out is not None:
        is_array = isinstance(out, np.ndarray)
        if not (is_array and out.dtype == float and out.shape == shape and out.flags.writeable):
            shown = f"{out.dtype} {out.shape}" if is_array else type(out).__name__
            raise InputError(f"out: expected a writable float64 array of shape {shape}, got {shown}")
    target = out.reshape(rows.shape) if out is not None and out.flags.c_contiguous else np.empty(rows.shape)
    return rows, np.ascontiguousarray(np.broadcast_to(radii, len(rows))), target


def checked_method(method: str, tol: float) -> tuple[int, float]:
    """Return the code of a method, and the tolerance."""
    if not isinstance(method, str) or method not in SIMPLEX_METHODS:
        raise InputError(f"method: expected one of {[*SIMPLEX_METHODS]}, got {method!r}")
    if not tol >= 0:
        raise InputError(f"tol: expected a number >= 0, got {tol!r}")
    return SIMPLEX_METHODS[method], float(tol)


def check_finite(x: Vector, name: str = "x") -> None:
    """Raise InputError with the place of the first NaN, infinity, or number whose size exceeds MAX_SIZE."""
    wrong = ~(np.abs(x) <= MAX_SIZE)
    if wrong.any():
        place = tuple(int(i) for i in np.argwhere(wrong)[0])
        raise InputError(
            f"{name}: expected finite numbers of at most {MAX_SIZE:g} in size, got {x[place]} at {place}"
        )


def finished(rows: Vector, wrong: int, target: Vector, x: ArrayLike, out: NDArray | None) -> Vector:
    """Return the result in the shape of x, in `out` if given; InputError if `wrong` is the number of a row."""
    if wrong >= 0:
        check_finite(rows)
        raise InputError(f"x: expected rows whose sums are finite, row {wrong} has none")
    result = target.reshape(np.shape(x))
    if out is None:
        return result
    if not np.shares_memory(result, out):
        out[...] = result
    return out
