r"""Pattern files of CRF++ and Wapiti, read into patterns.

A pattern a line: `U05:%x[-1,0]/%x[0,0]` are features of a position and its label, `B` is the weight of each pair of
neighbouring labels. Beyond the item CRF++ reads `_B-1`, `_B+1`, ... Wapiti has further small letters for `U` and
`B`, `*` for both, comments behind `#`, `%t[0,0,"\d"]` (does the expression match: true or false), `%m[0,0,"^.?.?"]`
(what matches), capital letters for a result in small ones (`%X`), `@` for positions counted from the item's ends
(`%x[@1,0]`), and the marks `_x-1`, `_x+1`, ... A file that uses any of this is Wapiti's, unless the caller says.

References
----------
Kudo: CRF++: Yet Another CRF toolkit, "Preparing feature templates".
Lavergne, Cappé, Yvon: Practical very large scale CRFs. ACL 2010; Wapiti's manual, "Patterns".
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import zip_longest
from typing import NamedTuple

from crfqn.data.templates.patterns import TEXT, Macro, Pattern, View, translate
from crfqn.errors import InputError
from crfqn.messages import describe, shorten

CRFPP, WAPITI = "crf++", "wapiti"
# Positions beyond the item that have a mark: CRF++ takes no offset over 8, Wapiti's `#` stands for all behind 4.
FARTHEST = {CRFPP: 8, WAPITI: 4}
MACRO = re.compile(
    r'%(?P<kind>[a-zA-Z])\[(?P<origin>[@*]?)(?P<offset>[+-]?\d+),(?P<column>\d+)(?:,"(?P<expression>(?:\\.|[^"\\])*)")?\]'
)
ONLY_WAPITI = re.compile(r"^[ub*]|%[XtTmM]\[|%x\[@")


class PatternFile(NamedTuple):
    """Patterns of a file."""

    patterns: tuple[Pattern, ...]
    has_edges: bool  # pairs of neighbouring labels have weights (`B`)
    dialect: str  # "crf++" or "wapiti"


def parse_patterns(text: str, columns: Sequence[str], dialect: str | None = None) -> PatternFile:
    """Read the text of a pattern file; its columns are numbered from 0.

    The dialect is by default the one whose means are used, CRF++'s where both have them. InputError names the line of a
    pattern that is none, of an unknown column or macro, of a `B` pattern over columns, which would need a weight for
    each pair of labels and feature; it says when there is no pattern at all.
    """
    lines = [(number, line.rstrip()) for number, line in enumerate(text.split("\n"), start=1)]
    lines = [(number, line) for number, line in lines if line and not line.startswith("#")]
    if dialect is None:
        dialect = WAPITI if any(ONLY_WAPITI.search(line) for _, line in lines) else CRFPP
    if dialect not in FARTHEST:
        raise InputError(f"dialect: expected {CRFPP!r} or {WAPITI!r}, got {describe(dialect)}")
    patterns: list[Pattern] = []
    has_edges = False
    for number, line in lines:
        try:
            pattern, with_edges = _parse_line(line, columns, dialect)
        except InputError as error:
            raise InputError(f"line {number}: {error}") from None
        has_edges |= with_edges
        if pattern is not None:
            patterns.append(pattern)
    if not patterns:
        raise InputError("expected at least one pattern like U00:%x[0,0], got none")
    return PatternFile(tuple(patterns), has_edges, dialect)


def marks(dialect: str) -> tuple[list[str], list[str]]:
    """Return the marks that stand 1, 2, ... positions before the first position, and behind the last."""
    letter = "B" if dialect == CRFPP else "x"
    numbers = [*map(str, range(1, FARTHEST[dialect] + 1)), *([] if dialect == CRFPP else ["#"])]
    return [f"_{letter}-{number}" for number in numbers], [f"_{letter}+{number}" for number in numbers]


def _parse_line(line: str, columns: Sequence[str], dialect: str) -> tuple[Pattern | None, bool]:
    """Return the pattern of a line, None for one of edges alone, and whether it asks for edges."""
    if dialect == WAPITI:
        line = line.partition("#")[0].rstrip()
        line = line[:1].lower() + line[1:]
    kinds = "ub*" if dialect == WAPITI else "UB"
    if line[:1] not in tuple(kinds):
        raise InputError(
            f"expected a pattern that begins with {', '.join(kinds[:-1])} or {kinds[-1]}, got {shorten(line)}"
        )
    kind = line[0].lower()
    pattern = _parse_pattern(line, columns, dialect)
    if kind in "b*" and pattern.macros:
        raise InputError(
            f"{shorten(line)} asks for a weight of each pair of labels and feature, and ChainCRF has one of each pair "
            f"of labels, the same at all positions: write {shorten(kinds[0] + line[1:])}, weights of label and "
            f"feature, and {kinds[1]} alone, those of label pairs"
        )
    return (None if kind == "b" else pattern), kind != "u"


def _parse_pattern(line: str, columns: Sequence[str], dialect: str) -> Pattern:
    matches = list(MACRO.finditer(line))
    ends = [0, *(match.end() for match in matches)]
    starts = [*(match.start() for match in matches), len(line)]
    literals = tuple(line[end:start] for end, start in zip(ends, starts, strict=True))
    macros = []
    for literal, match in zip_longest(literals, matches):
        if "%" in literal:
            raise InputError(
                f'expected macros like %x[-1,0], %t[0,0,"\\d"] or %m[0,0,"^.?"], got {shorten(literal)} '
                f"in {shorten(line)}"
            )
        if match:
            macros.append(_macro(match, columns, dialect))
    return Pattern(literals, tuple(macros))


def _macro(match: re.Match[str], columns: Sequence[str], dialect: str) -> Macro:
    kind, shown = match["kind"].lower(), shorten(match[0])
    if kind not in "xtm" or (dialect == CRFPP and match["kind"] != TEXT):
        known = "%x" if dialect == CRFPP else "%x, %t, %m and their capitals"
        raise InputError(f"unknown macro {shown}; {dialect} has {known}")
    if (kind == TEXT) != (match["expression"] is None):
        raise InputError(
            f"{shown}: %x has two arguments, %t and %m have an expression in quotes behind these"
        )
    offset, column = int(match["offset"]), int(match["column"])
    if column >= len(columns):
        raise InputError(
            f"{shown} asks for column {column}; there are 0 to {len(columns) - 1}: {', '.join(columns)}"
        )
    if match["origin"] == "*":
        raise InputError(f"{shown}: offsets that are read from a column are not supported")
    if dialect == CRFPP and abs(offset) > FARTHEST[CRFPP]:
        raise InputError(f"{shown}: expected an offset of at most {FARTHEST[CRFPP]}")
    if kind != TEXT:
        translate(match["expression"])
    view = View(columns[column], kind, match["expression"] or "", match["kind"].isupper())
    return Macro(view, offset, match["origin"] == "@")
