"""Constraints on the labels of new items, besides the rules of a model, and the threshold of their probabilities.

Engines keep the constraints in inference; the threshold is applied to their results.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from numbers import Real
from typing import Any, NamedTuple

from crfqn.errors import InputError
from crfqn.messages import describe

PROBABILITY_ROUNDING = (
    1e-12  # by which probabilities of the engines may differ, and a certain label be below 1
)


class LabelConstraints(NamedTuple):
    """Constraints on the labels of new items; None is no constraint.

    known : list with an entry for each item: the labels that each position may have, as in `ChainCRF.predict`
    once : labels or types of spans that each form one run per item or none; they replace the model's own

    An engine checks them when it opens the items. Probabilities are conditional on `known`; they count all labellings,
    also those that break `once` (constrained Viterbi: Culotta and McCallum 2004, HLT-NAACL).
    """

    known: Sequence[Any] | None = None
    once: Collection[Any] | None = None

    @property
    def arguments(self) -> dict[str, Any]:
        """The constraints as keyword arguments of the methods of models of sequences."""
        return {name: value for name, value in zip(self._fields, self, strict=True) if value is not None}


UNCONSTRAINED = LabelConstraints()


def check_threshold(threshold: object) -> float:
    """Return the threshold as a float; InputError for anything but a number from 0 to 1."""
    if isinstance(threshold, Real) and not isinstance(threshold, bool) and 0 <= float(threshold) <= 1:
        return float(threshold)
    raise InputError(f"threshold: expected None or a number from 0 to 1, got {describe(threshold)}")


def is_probable(p: Any, threshold: float) -> Any:
    """Return which probabilities (a float or an array) reach the threshold, up to rounding."""
    return p >= threshold - PROBABILITY_ROUNDING
