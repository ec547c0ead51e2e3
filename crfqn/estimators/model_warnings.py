"""Warnings of models without weights, and of items to label that have no feature which the model knows.

Both look as if all were well; most often a strength is too large, or features have other names.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from crfqn.data.items import Items
from crfqn.data.token_rows import TokenRows, known_rows
from crfqn.data.vocabulary import UNSEEN, KnownNames
from crfqn.errors import EmptyModelWarning, UnknownFeaturesWarning, is_called_from, warn_caller
from crfqn.objectives.protocols import CurvatureView, has_view
from crfqn.result import Result, Status
from crfqn.solvers.largest_strength import largest_strength
from crfqn.solvers.protocols import Objective, Penalty
from crfqn.solvers.unpenalised import solve_unpenalised

SOLVED = (Status.CONVERGED, Status.ESTIMATED, Status.STATIONARY)
SEARCHES = "sklearn.model_selection"  # score models under every strength, too strong ones as well
# They score many models of the same items.
QUIET = ("sklearn.model_selection", "crfqn.solvers", "crfqn.regularization_path")


def reason_of_empty(objective: Objective, penalty: Penalty, result: Result) -> str | None:
    """Return why all penalised weights of a solved model are zero, with the largest useful strength; None if not all.

    Where no weight would change the loss, as with one label, there is none, and nothing to tell.
    """
    is_kept = ~np.isin(result.coords, penalty.unpenalised)
    is_empty = penalty.dual_radius > 0 and result.status in SOLVED and not result.weights[is_kept].any()
    if not is_empty:
        return None
    name = "group_l1" if getattr(penalty, "group_l1", 0.0) > 0 else "l1"
    if not has_view(objective, CurvatureView):  # a subgradient does not tell it
        advice = "choose a smaller one"
    else:
        point = solve_unpenalised(objective.at(result.coords, result.weights), penalty.unpenalised)
        largest = largest_strength(name, objective, penalty, point)
        if largest == 0.0 and name == "group_l1" and penalty.l1 > 0:  # l1 alone is too strong
            name, largest = "l1", largest_strength("l1", objective, penalty, point)
        if largest == 0.0:
            return None
        advice = f"the largest useful {name} is {largest:.4g}"
    return f"all weights are zero under {name} = {getattr(penalty, name):.4g}; {advice}"


def warn_of_empty(reason: str | None) -> None:
    """Warn of a model that is empty for a reason."""
    if reason is not None and not is_called_from(SEARCHES):
        warn_caller(reason, EmptyModelWarning)


def warn_of_unknown(counts: NDArray[np.integer], n_positions: NDArray[np.integer] | None = None) -> None:
    """Warn of items without known features, (I,) counts of them; an item without positions has none to know."""
    is_unknown = counts == 0 if n_positions is None else (counts == 0) & (n_positions > 0)
    n_unknown = int(is_unknown.sum())
    if n_unknown == 0 or is_called_from(*QUIET):
        return
    positions = "" if n_positions is None else f" ({n_positions[is_unknown].sum():,} positions)"
    message = (
        f"{n_unknown:,} of {counts.size:,} items{positions} have no feature that the model knows; "
        "their labels do not depend on them"
    )
    warn_caller(UnknownFeaturesWarning(message, n_unknown), UnknownFeaturesWarning)


def warn_of_empty_rows(X: Any) -> None:
    """Warn of rows of a sparse matrix without entries: nothing in them was known to what made the matrix."""
    if hasattr(X, "tocsr"):
        warn_of_unknown(np.diff(X.tocsr().indptr))


def warn_of_unknown_names(encoded: Items, items: Any, names: KnownNames | None) -> None:
    """Warn of sequences without known features; rows of names were looked up among those with weights alone."""
    if (
        isinstance(encoded, TokenRows)
        and encoded.offsets.size == 2
        and encoded.columns.max(initial=UNSEEN) >= 0
    ):
        return  # of one sentence it is soonest told
    n_positions = np.diff(encoded.offsets)
    if not isinstance(encoded, TokenRows):
        matrix = encoded.matrix  # type: ignore[attr-defined]
        if hasattr(matrix, "indptr"):
            warn_of_unknown(np.diff(matrix.indptr[encoded.offsets]), n_positions)
        return
    counts = known_entries(encoded)
    suspects = np.flatnonzero((counts == 0) & (np.diff(encoded.row_ends[encoded.offsets]) > 0))
    counts[counts == 0] = 1  # positions without any feature were not misnamed
    if suspects.size and names is not None:
        given = items if isinstance(items, (list, tuple)) else list(items)
        counts[suspects] = known_entries(known_rows([given[i] for i in suspects], names))
        warn_of_unknown(counts, n_positions)


def known_entries(rows: TokenRows) -> NDArray[np.int64]:
    """Return how many entries of each item have a column, (I,)."""
    n_before = np.concatenate([[0], np.cumsum(rows.columns != UNSEEN)])
    return np.diff(n_before[rows.row_ends[rows.offsets]])
