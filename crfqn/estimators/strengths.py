"""Choice of the strengths behind `l1="auto"`, `group_l1="auto"` and `l2="auto"`, by the noise of gradients.

    l1 = 0.1 noise,    group_l1 = 0.2 noise,    that of a single weight (`crfqn.objectives.gradient_noise`)
    l2 = 2 x unit information,    and beside it l1 = 0.25 noise

Among K labels the gradient of a whole row of weights is sqrt(K) times as long, but a feature that matters matters to a
few labels: a strength in proportion to the row's noise is too strong for these where labels are many.

The noise follows the number of items, the scale and the density of the features, the loss and the weights of the items;
a feature in another unit, with weights in the inverse one, has the same model. Theory has shares from 1 on, which keep
out nearly every feature that says nothing; smaller ones predict better, as keeping such a feature costs less than
shrinking the others.

`l2="auto"` is Laplace's rule: as if each feature had been seen twice more, once with a label and once without. It is of
weight where features are rare, as in text, and next to nothing where they are dense. The variance of a gradient would
be the information of all positions with an average feature: on handwritten words that cost four points.
"""

from __future__ import annotations

import sys
from typing import Any, TypeAlias

from crfqn.arrays import Coords
from crfqn.estimators.automatic_solver import AUTO
from crfqn.objectives.gradient_noise import gradient_noise, unit_information

Strengths: TypeAlias = dict[str, Any]  # a float or "auto" by name: l1, l2, group_l1
# docs/choosing-strengths.md: from .07 to .25, and from .11 to .33, all sets are within a point of their tuned strength.
SHARES = {"l1": 0.1, "group_l1": 0.2}
SHARE_WITH_L2 = 0.25  # the same page: from .1 to .5 text scores are the same, and the models ever smaller
SEEN = 2  # positions that l2 = "auto" is worth
AUTOMATIC = tuple(SHARES)
STRENGTHS = ("l1", "l2", "group_l1")


def is_auto(value: Any) -> bool:
    """Return whether a strength is left to the data."""
    return isinstance(value, str) and value == AUTO


def automatic_strength(name: str, objective: Any, unpenalised: Coords) -> float:
    """Return what "auto" stands for as l1, l2 or group_l1, 0 where labels do not vary, in a pass over the data."""
    return float(chosen_strengths({name: AUTO}, objective, unpenalised)[name])


def chosen_strengths(strengths: Strengths, objective: Any, unpenalised: Coords) -> Strengths:
    """Return the strengths as numbers: those that are "auto" chosen for the loss that is to be minimised."""
    if not any(map(is_auto, strengths.values())):
        return strengths
    noise = gradient_noise(objective, unpenalised)
    chosen = {name: share * noise for name, share in SHARES.items()}
    if is_auto(strengths.get("l2")):
        chosen["l1"] = SHARE_WITH_L2 * noise
        chosen["l2"] = SEEN * unit_information(objective, unpenalised)
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
