"""Factors of features: a feature's weights are penalised by the strengths times its factor.

    sum_f v_f (l1 ||w_f||_1 + l2/2 ||w_f||^2 + group_l1 ||w_f||),    v_f >= 0, 0: the feature is not penalised

These are glmnet's `penalty.factor` (Friedman, Hastie and Tibshirani 2010). With factors computed from an earlier
fit, the penalty is the adaptive lasso (Zou 2006). Factors are not rescaled: glmnet divides them by their mean, so that
its lambda differs from l1 here. Transitions of a chain and penalised intercepts have the factor 1.

Shapes: F columns of features, K states; n coordinates that are passed in as `coords`, sorted int64.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from crfqn.arrays import Coords, Vector
from crfqn.errors import InputError
from crfqn.messages import shorten

EXPECTED_FACTORS = "penalty_factors: expected finite numbers >= 0"
WILDCARD = "*"  # matches any characters of a name


class FeatureFactors(NamedTuple):
    """Factors of all coordinates.

    columns : float64 (F,), the factor of each column of features, the same for all states
    contexts : float64 (C,), the factor of the K K edge weights of each context; contexts are the transitions (if the
        model has them), then the bigram features
    n_states : K
    minimum : the smallest factor above 0 of a penalised weight
    """

    columns: Vector
    contexts: Vector
    n_states: int
    minimum: float

    def at(self, coords: Coords) -> Vector:
        """Return the factor of each coordinate, (n,)."""
        n_nodes = self.columns.size * self.n_states
        is_edge = coords >= n_nodes
        if not is_edge.any():
            return self.columns[coords % self.columns.size]
        out = np.empty(coords.size)
        out[~is_edge] = self.columns[coords[~is_edge] % max(self.columns.size, 1)]
        out[is_edge] = self.contexts[(coords[is_edge] - n_nodes) // self.n_states**2]
        return out

    def zeros(self) -> Coords:
        """Return the coordinates of factor 0, sorted."""
        n_columns, n_pairs = self.columns.size, self.n_states**2
        nodes = np.arange(self.n_states)[:, None] * n_columns + np.flatnonzero(self.columns == 0)
        edges = np.flatnonzero(self.contexts == 0)[:, None] * n_pairs + np.arange(n_pairs)
        return np.concatenate([nodes.reshape(-1), n_columns * self.n_states + edges.reshape(-1)]).astype(
            np.int64
        )


class Layout(NamedTuple):
    """The weights that a penalty acts on: F features and K states, the unpenalised coordinates, the norm of groups.

    feature_groups : int64 (F,), the block of each feature if groups are blocks of features within a state, or None
    """

    n_features: int
    n_states: int
    unpenalised: Coords
    norm: str = "l2"
    feature_factors: FeatureFactors | None = None
    feature_groups: Coords | None = None


def factors_by_column(
    factors: ArrayLike | Mapping[str, float], names: Sequence[str] | None, n_features: int
) -> Vector:
    """Return the factor of each of F = `n_features` columns, float64 (F,).

    factors : array-like, shape (F,), or mapping of names or patterns to factors. `*` in a pattern matches any
        characters. Names have precedence over patterns, and later patterns over earlier ones. Other features have 1.
    names : the names of the columns, None if they have none

    Raises
    ------
    InputError
        A factor is not a finite number >= 0, no feature has a name or matches a pattern, or the length is not F.
    """
    if isinstance(factors, Mapping):
        return _factors_by_name(factors, names)
    try:
        out = np.asarray(factors, np.float64)
    except (TypeError, ValueError):
        raise InputError(f"{EXPECTED_FACTORS}, or a dict name -> factor, got {shorten(factors)}") from None
    if out.shape != (n_features,):
        raise InputError(
            f"penalty_factors: expected {n_features} factors, one for each feature, got an array of shape {out.shape}"
        )
    wrong = np.flatnonzero(~(np.isfinite(out) & (out >= 0)))
    if wrong.size:
        name = f"feature {wrong[0]}" if names is None else shorten(names[wrong[0]])
        raise InputError(f"{EXPECTED_FACTORS}, got {out[wrong[0]]} for {name}")
    return out


def _factors_by_name(factors: Mapping[str, float], names: Sequence[str] | None) -> Vector:
    for name, factor in factors.items():
        is_number = isinstance(factor, (int, float, np.number)) and not isinstance(factor, bool)
        if not (isinstance(name, str) and is_number and np.isfinite(factor) and factor >= 0):
            raise InputError(f"{EXPECTED_FACTORS} by name, got {shorten(factor)} for {shorten(name)}")
    if names is None:
        raise InputError(
            "penalty_factors: expected an array of a factor for each column, as the features have no names, "
            f"got a dict of {len(factors)} names"
        )
    out = np.ones(len(names))
    patterns = {name: factor for name, factor in factors.items() if WILDCARD in name}
    for pattern, factor in patterns.items():
        matches = re.compile(".*".join(map(re.escape, pattern.split(WILDCARD))), re.DOTALL).fullmatch
        columns = [column for column, name in enumerate(names) if matches(name)]
        if not columns:
            raise InputError(
                f"penalty_factors: expected patterns of features' names, got {shorten(pattern)}, which none has"
            )
        out[columns] = factor
    column_of = {name: column for column, name in enumerate(names) if name in factors}
    for name, factor in factors.items():
        if name in patterns:
            continue
        if name not in column_of:
            examples = ", ".join(map(shorten, list(names)[:3]))
            raise InputError(
                f"penalty_factors: expected names of features, such as {examples}, or patterns with *, "
                f"got {shorten(name)}, which no feature has"
            )
        out[column_of[name]] = factor
    return out


def feature_factors(by_column: Vector, space: Any, layout: Layout) -> FeatureFactors:
    """Return the factors of a training's weights: 1 for those of a dense block, a constant and transitions."""
    n_dense, columns = space.n_dense, np.ones(layout.n_features)
    columns[n_dense : n_dense + by_column.size] = by_column
    contexts = np.append(np.ones(int(space.has_transitions)), by_column[space.bigram_columns])
    has_constant = layout.n_features > n_dense + by_column.size and layout.unpenalised.size == 0
    penalised = np.concatenate([by_column[by_column > 0], contexts[:1], np.ones(int(has_constant))])
    if not penalised.size:
        raise InputError("penalty_factors: expected a factor above 0, got 0 for all features")
    return FeatureFactors(columns, contexts, layout.n_states, float(penalised.min()))
