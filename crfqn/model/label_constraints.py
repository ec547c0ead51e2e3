"""What new items are to be labelled under, besides the rules of a model: one value, from callers to the engines; and
the least probability of a label, which is applied to what the engines return."""

from __future__ import annotations

from collections.abc import Collection
from numbers import Real
from typing import Any, NamedTuple

from crfqn.errors import InputError
from crfqn.messages import describe

ROUNDING = 1e-12  # of probabilities, by which the engines may differ


class LabelConstraints(NamedTuple):
    """Constraints on the labels of new items; what is None does not constrain them.

    known : list, one entry an item, of the labels that each position may have, as of `ChainCRF.predict`
    once : labels or types of spans that form at most one run in an item each, in the place of the model's own

    An engine checks them where it opens the items. Probabilities are given `known`, and among all labellings, also
    those that break `once` (constrained Viterbi: Culotta and McCallum 2004, HLT-NAACL).
    """

    known: Any = None
    once: Collection[Any] | None = None

    @property
    def arguments(self) -> dict[str, Any]:
        """The constraints as keyword arguments of public methods, which models of single items do not have."""
        return {name: value for name, value in zip(self._fields, self, strict=True) if value is not None}


UNCONSTRAINED = LabelConstraints()


def check_threshold(threshold: Any) -> float:
    """Return the least probability of an answer; InputError for anything but a number from 0 to 1."""
    is_number = isinstance(threshold, Real) and not isinstance(threshold, bool)
    if not is_number or not 0 <= float(threshold) <= 1:
        raise InputError(f"threshold: expected None or a number from 0 to 1, got {describe(threshold)}")
    return float(threshold)


def is_probable(p: Any, threshold: float) -> Any:
    """Return which probabilities are at least the threshold, up to rounding: what is certain always is."""
    return p >= threshold - ROUNDING
