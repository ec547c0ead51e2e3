"""Patterns: how the name of a feature is made of the texts around a position, and how texts are read out of a name.

A pattern is literals and macros by turns; a macro stands for the text of a column some positions away, or for
something that is computed from it (`views.py`). `U05:%x[-1,0]/%x[0,0]` of CRF++ and `w[-1]|w[0]` of our windows are
both patterns.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from crfqn.data.templates.patterns.views import View

FIRST_POSITION, LAST_POSITION, EVERYWHERE = "first", "last", ""


class Macro(NamedTuple):
    """Part of a pattern that depends on the data.

    Attributes
    ----------
    view : View
        What is read: a column, or something computed from it.
    offset : int
        Positions further on; if `is_absolute`, from 1 = the first position of the item, or from -1 = the last.
    is_absolute : bool
    """

    view: View
    offset: int
    is_absolute: bool = False


@dataclass(frozen=True)
class Pattern:
    """Pattern of names of features.

    Parameters
    ----------
    literals : tuple of k + 1 str
    macros : tuple of k Macro
        The name is literals[0] + value of macros[0] + literals[1] + ... + literals[k].
    has_marks : bool
        Whether a macro that reaches beyond the item gives a mark, such as `_B-1`; otherwise the pattern gives
        nothing there.
    only : {"", "first", "last"}
        Whether it is for the first or the last position of an item alone.
    """

    literals: tuple[str, ...]
    macros: tuple[Macro, ...] = ()
    has_marks: bool = True
    only: str = EVERYWHERE

    def name(self, values: tuple[str, ...]) -> str:
        """Return the name of the feature of these values."""
        pieces = [self.literals[0]]
        for value, literal in zip(values, self.literals[1:], strict=True):
            pieces += (value, literal)
        return "".join(pieces)

    def readings(self, name: str) -> Iterator[tuple[str, ...]]:
        """Yield all values of the macros that have this name; usually one, more where values hold the literals."""
        if name.startswith(self.literals[0]):
            yield from self._rest(name, len(self.literals[0]), 1)

    def _rest(self, name: str, start: int, number: int) -> Iterator[tuple[str, ...]]:
        """Yield the values of the macros from `number` on that name[start:] can be read as."""
        if number == len(self.literals):
            if start == len(name):
                yield ()
            return
        literal = self.literals[number]
        is_last = number == len(self.macros)
        if is_last:
            if name.endswith(literal) and len(name) - len(literal) >= start:
                yield (name[start : len(name) - len(literal)],)
            return
        at = name.find(literal, start)
        while at >= 0:
            for values in self._rest(name, at + len(literal), number + 1):
                yield (name[start:at], *values)
            at = name.find(literal, at + 1) if at < len(name) else -1
