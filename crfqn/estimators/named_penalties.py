"""Penalties that flat classifiers know by name (`crfqn/choices.py`), of the strengths that each has.

    l1 ||W||_1 + l2/2 ||W||^2 + group_l1 sum_f ||w_f||,   w_f the weights of feature f

The penalties over rows other than L1/L2 are in section 4.7 of Blondel, Seki and Uehara (2013).
"""

from __future__ import annotations

from dataclasses import replace
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crfqn.choices import PENALTIES, PenaltyRow, load_class
from crfqn.errors import InputError
from crfqn.estimators.automatic_solver import AUTO
from crfqn.estimators.strengths import STRENGTHS, Strengths, is_auto
from crfqn.parameters import PARAMETERS
from crfqn.penalties import ElasticNet, GroupLasso
from crfqn.penalties.penalty import Layout

# Of estimators whose penalty has a name: strengths that are not given have the default of the name.
LINEAR_PARAMETERS = {
    **PARAMETERS,
    **{name: replace(PARAMETERS[name], is_optional=True) for name in ("l1", "group_l1")},
    "l2": replace(PARAMETERS["l2"], words=(), is_optional=True),
}
# Of strengths that the penalty's name has.
DEFAULTS = {"l1": AUTO, "l2": 1.0, "group_l1": AUTO}


def named_penalty(name: object) -> PenaltyRow:
    """Return the penalty of this name; InputError for another name."""
    if not isinstance(name, str) or name not in PENALTIES:
        raise InputError(f"penalty: expected one of {[*PENALTIES]}, got {name!r}")
    return PENALTIES[name]


def strengths_of(name: str, **given: float | str | None) -> Strengths:
    """Return every strength by name: as given, or the default where the penalty has it, else 0. Each may have an L2
    term; InputError for any other strength > 0 that the penalty does not have."""
    known = named_penalty(name).strengths
    found: Strengths = {}
    for strength in STRENGTHS:
        value: Any = given[strength]
        if value is None:
            value = DEFAULTS[strength] if strength in known else 0.0
        if (is_auto(value) or value > 0) and strength not in (*known, "l2"):
            others = [other for other, kind in PENALTIES.items() if strength in kind.strengths]
            raise InputError(
                f"{strength}: the penalty {name!r} has none, its strength is {known[0]}; "
                f"{' and '.join(map(repr, others))} have {strength}, got {value!r}"
            )
        found[strength] = value if is_auto(value) else float(value)
    return found


def make_penalty(
    name: str,
    strengths: dict[str, float],
    n_features: int,
    n_states: int,
    unpenalised: NDArray[np.int64],
    groups: NDArray[np.int64] | None = None,
) -> ElasticNet | GroupLasso:
    """Return the penalty over F features and K states but for the coordinates `unpenalised`; `groups` are the block of
    each feature, where norms are of blocks of features by state, not of rows."""
    row = named_penalty(name)
    layout = Layout(n_features, n_states, unpenalised, row.norm, groups)
    return load_class(row.made_of).of_strengths(strengths, layout)


def feature_blocks(groups: object, n_features: int, n_columns: int) -> NDArray[np.int64]:
    """Number the blocks of features, each so many in order, or by a label a feature; a constant, in `n_columns` beyond
    `n_features`, is a block of its own. InputError for other `groups`."""
    if isinstance(groups, Integral) and not isinstance(groups, bool) and int(groups) >= 1:
        found = np.arange(n_features) // int(groups)
    else:
        labels = np.asarray(groups)
        if labels.shape != (n_features,) or labels.dtype.kind not in "biuUS":
            got = (
                f"an array of shape {labels.shape} and dtype {labels.dtype}" if labels.ndim else repr(groups)
            )
            raise InputError(
                f"feature_groups: expected None, a block size >= 1 or {n_features} labels, one a feature, got {got}"
            )
        found = np.unique(labels, return_inverse=True)[1].reshape(-1)
    constant = np.full(n_columns - n_features, found.max(initial=-1) + 1)
    return np.concatenate([found, constant]).astype(np.int64)
