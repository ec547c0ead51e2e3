"""What new items are to be labelled under, besides the rules of a model: one value, from callers to the engines."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, NamedTuple


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
