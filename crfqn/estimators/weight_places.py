"""Keeping what is made of the places of a model's weights, as long as the CSR array's index arrays are the same ones.

It does not depend on the numbers there, so that changing them in place is seen.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from functools import update_wrapper
from typing import Any, Generic, NamedTuple, TypeVar

Made = TypeVar("Made")


class Kept(NamedTuple, Generic[Made]):
    """A result, with references to the arrays `indptr` and `indices` that it was made of, and the other arguments."""

    indptr: weakref.ref
    indices: weakref.ref
    others: tuple[Any, ...]
    made: Made


class KeptByPlaces(Generic[Made]):
    """Decorator of a function of a CSR array's places, and of other objects that last as long: the last result is kept.

    Attributes
    ----------
    kept : the results by the identity of `indices`, as long as these live
    """

    def __init__(self, make: Callable[..., Made]) -> None:
        self.kept: dict[int, Kept[Made]] = {}
        self._make = make
        update_wrapper(self, make)

    def __call__(self, coef: Any, *others: Any) -> Made:
        """Return what the function returned for the same arrays and objects, or call it."""
        key = id(coef.indices)
        found = self.kept.get(key)
        if (
            found is not None
            and found.indices() is coef.indices
            and found.indptr() is coef.indptr
            and all(a is b for a, b in zip(found.others, others, strict=True))
        ):
            return found.made
        made = self._make(coef, *others)
        self.kept[key] = Kept(
            weakref.ref(coef.indptr),
            weakref.ref(coef.indices, lambda _: self.kept.pop(key, None)),
            others,
            made,
        )
        return made
