"""Choice of the strengths behind `l1="auto"`, `group_l1="auto"` and `l2="auto"`, by the noise of gradients.

    l1 = 0.1 noise,    group_l1 = 0.2 noise,    that of a single weight (`crfqn.objectives.gradient_noise`)
    l2 = 2 x unit information,    and beside it, of sequences, l1 = 0.25 noise

Among K labels the gradient of a whole row of weights is sqrt(K) times as long, but a feature that matters matters to a
few labels: a strength in proportion to the row's noise is too strong for these where labels are many.

The noise follows the number of items, the scale and the density of the features, the loss and the weights of the items;
a feature in another unit, with weights in the inverse one, has the same model. Theory has shares from 1 on, which keep
out nearly every feature that says nothing; smaller ones predict better, as keeping such a feature costs less than
shrinking the others.

`l2="auto"` is Laplace's rule: as if each feature had been seen twice more, once with a label and once without. It is of
weight where features are rare, as in text, and next to nothing where they are dense. The variance of a gradient would
be the information of all positions with an average feature: on handwritten words that cost four points.

Below: the penalties that flat classifiers know by name (`crfqn/choices.py`), of the strengths that each has,

    l1 ||W||_1 + l2/2 ||W||^2 + group_l1 sum_f ||w_f||,   w_f the weights of feature f;

those over rows other than L1/L2 are in section 4.7 of Blondel, Seki and Uehara (2013).
"""

from __future__ import annotations

import sys
from dataclasses import replace
from numbers import Integral
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from crfqn.arrays import NO_COORDS, Coords
from crfqn.choices import PENALTIES, PenaltyRow, load_class
from crfqn.errors import InputError
from crfqn.estimators.automatic_solver import AUTO
from crfqn.objectives.gradient_noise import gradient_noise, unit_information
from crfqn.parameters import PARAMETERS
from crfqn.penalties import ElasticNet, GroupLasso
from crfqn.penalties.penalty import Layout

Strengths: TypeAlias = dict[str, Any]  # a float or "auto" by name: l1, l2, group_l1
# docs/choosing-strengths.md: from .07 to .25, and from .11 to .33, all sets are within a point of their tuned strength.
SHARES = {"l1": 0.1, "group_l1": 0.2}
# The same page: from .1 to .5 scores of sequences are the same, and the models ever smaller; texts as one item lose.
SHARE_WITH_L2 = 0.25
SEEN = 2  # positions that l2 = "auto" is worth
AUTOMATIC = tuple(SHARES)
STRENGTHS = ("l1", "l2", "group_l1")


def is_auto(value: Any) -> bool:
    """Return whether a strength is left to the data."""
    return isinstance(value, str) and value == AUTO


def automatic_strength(name: str, objective: Any, unpenalised: Coords, dense: Coords = NO_COORDS) -> float:
    """Return what "auto" stands for as l1, l2 or group_l1, 0 where labels do not vary, in a pass over the data."""
    return float(chosen_strengths({name: AUTO}, objective, unpenalised, dense)[name])


def chosen_strengths(
    strengths: Strengths, objective: Any, unpenalised: Coords, dense: Coords = NO_COORDS
) -> Strengths:
    """Return the strengths as numbers: those that are "auto" chosen for the loss that is to be minimised, by the
    features without those of a `dense` block."""
    if not any(map(is_auto, strengths.values())):
        return strengths
    noise = gradient_noise(objective, unpenalised, dense)
    chosen = {name: share * noise for name, share in SHARES.items()}
    if is_auto(strengths.get("l2")):
        chosen["l1"] = (SHARE_WITH_L2 if objective.operations.has_sequences else SHARES["l1"]) * noise
        chosen["l2"] = SEEN * unit_information(objective, np.union1d(unpenalised, dense))
    return {name: chosen[name] if is_auto(value) else value for name, value in strengths.items()}


def print_strengths(strengths: Strengths) -> None:
    """Say on stderr which strengths a training has, once they have been chosen."""
    print(f"strengths: {described(strengths)}", file=sys.stderr, flush=True)


def described(strengths: Strengths) -> str:
    """Return words for strengths: "l1 = 0.13, l2 = 0"; group_l1 where it is not 0."""
    return ", ".join(
        f"{name} = {value if is_auto(value) else format(value, 'g')}"
        for name, value in strengths.items()
        if value or name != "group_l1"
    )


# Of estimators whose penalty has a name: strengths that are not given have the default of the name.
LINEAR_PARAMETERS = {
    **PARAMETERS,
    **{name: replace(PARAMETERS[name], is_optional=True) for name in ("l1", "group_l1")},
    "l2": replace(PARAMETERS["l2"], words=(), is_optional=True),
}
# Of strengths that the penalty's name has; "l1" has an l2 beside it, too, where l1 is not given.
DEFAULTS = {"l1": AUTO, "l2": 1.0, "group_l1": AUTO}


def named_penalty(name: object) -> PenaltyRow:
    """Return the penalty of this name; InputError for another name."""
    if not isinstance(name, str) or name not in PENALTIES:
        raise InputError(f"penalty: expected one of {[*PENALTIES]}, got {name!r}")
    return PENALTIES[name]


def strengths_of(name: str, is_likelihood: bool = False, **given: float | str | None) -> Strengths:
    """Return every strength by name: as given, or the default where the penalty has it, else 0. Each may have an L2
    term; InputError for any other strength > 0 that the penalty does not have. Of a likelihood (Laplace's rule) l2 is
    "auto" beside an automatic l1 alone: a penalty that is given is the whole penalty."""
    known = named_penalty(name).strengths
    if (
        is_likelihood
        and name == "l1"
        and given["l2"] is None
        and (given["l1"] is None or is_auto(given["l1"]))
    ):
        given["l2"] = AUTO
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
    return load_class(row.class_path).of_strengths(strengths, layout)


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
