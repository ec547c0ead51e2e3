r"""Patterns, which make the name of a feature of the texts around a position and read these texts out of a name.

A pattern is alternating literals and macros; the value of a macro is a view of a column some positions away: the text,
a form of it such as its shape or its ending, or the match of a regular expression. `U05:%x[-1,0]/%x[0,0]` of CRF++ and
`w[-1]|w[0]` of our windows are both patterns. A view is computed once for each distinct text; None is no feature.

Wapiti's regular expressions have `.` for any character, `\a` letter, `\d` digit, `\l` small and `\u` capital letter,
`\w` letter or digit, `\p` punctuation, `\s` space, capitals of these for all others, `^` and `$`, and `*` and `?` after
a character.

Pattern files of CRF++ and Wapiti, read into patterns.

A pattern a line: `U05:%x[-1,0]/%x[0,0]` are features of a position and its label, `B` is the weight of each pair of
neighbouring labels, and `B01:%x[0,0]` are features of a position, its label and the one before. Beyond the item CRF++
reads `_B-1`, `_B+1`, ... Wapiti also has small letters for `U` and `B`, `*` for both, comments after `#`,
`%t[0,0,"\d"]` (whether the expression matches: true or false), `%m[0,0,"^.?.?"]` (the match), capital letters for a
result in small ones (`%X`), `@` for positions counted from the item's ends (`%x[@1,0]`), and the marks `_x-1`, `_x+1`,
... A file that uses any of this is Wapiti's, unless the caller names the dialect.

References
----------
Kudo: CRF++: Yet Another CRF toolkit, "Preparing feature templates".
Lavergne, Cappé, Yvon: Practical very large scale CRFs. ACL 2010; Wapiti's manual, "Patterns".
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import zip_longest
from typing import NamedTuple

from crfqn.errors import InputError
from crfqn.messages import describe, shorten

TRUE_TEXT, FALSE_TEXT = "true", "false"
SHAPE_LETTERS = (("A-Z", "X"), ("a-z", "x"), ("0-9", "d"))  # of characters that `word_shape` keeps apart


def word_shape(word: str) -> str:
    """Return the kinds of a word's characters (a to z), runs cut to two: `Zeeland-1944` is `Xxx-dd`; other letters
    stay."""
    for characters, kind in SHAPE_LETTERS:
        word = re.sub(f"[{characters}]", kind, word)
    return re.sub(r"(.)\1{2,}", r"\1\1", word)


def _shape(text: str) -> str:
    """Return the kinds of a text's characters: X capital, x small, d digit, others unchanged."""
    return "".join("X" if c.isupper() else "x" if c.isalpha() else "d" if c.isdigit() else c for c in text)


def _affix(n: int, is_lower: bool = False) -> Callable[[str], str | None]:
    """Return the function that cuts the first n letters of a text, or the last -n: None for shorter texts; with
    `is_lower`, of any text, in small letters."""
    part = slice(n) if n > 0 else slice(n, None)
    if is_lower:
        return lambda text: text.lower()[part]
    return lambda text: text[part] if len(text) >= abs(n) else None


def _flag(test: Callable[[str], bool]) -> Callable[[str], str | None]:
    return lambda text: TRUE_TEXT if test(text) else None


SHAPE_FORMS: dict[str, Callable[[str], str | None]] = {
    "lower": str.lower,
    **{f"prefix{n}": _affix(n) for n in (1, 2, 3, 4)},
    **{f"suffix{n}": _affix(-n) for n in (1, 2, 3, 4)},
    "shape": _shape,
    "runs": lambda text: re.sub(r"(.)\1+", r"\1", _shape(text), flags=re.DOTALL),  # a character a run
    "has-digit": _flag(lambda text: any(map(str.isdigit, text))),
    "has-hyphen": _flag(lambda text: "-" in text),
    "has-capital": _flag(lambda text: any(map(str.isupper, text))),
    "is-capitalized": _flag(lambda text: text[:1].isupper()),
    "is-upper": _flag(str.isupper),
    "is-number": _flag(lambda text: bool(re.fullmatch(r"[+-]?[0-9][0-9.,]*", text))),
    "is-punctuation": _flag(lambda text: bool(text) and not any(map(str.isalnum, text))),
}  # those that `word_shapes` takes together
COLUMN_FORMS = SHAPE_FORMS | {
    **{f"first{n}": _affix(n, is_lower=True) for n in (2, 3)},
    **{f"last{n}": _affix(-n, is_lower=True) for n in (2, 3)},
    "short-shape": word_shape,
    "is-title": _flag(str.istitle),
    "is-digits": _flag(str.isdigit),
}


TEXT_MACRO, TEST_MACRO, MATCH_MACRO = "x", "t", "m"
PUNCTUATION_RANGES = r"!-/:-@\[-`{-~"
CHARACTER_CLASSES = {
    "a": "a-zA-Z",
    "d": "0-9",
    "l": "a-z",
    "u": "A-Z",
    "w": "a-zA-Z0-9",
    "p": PUNCTUATION_RANGES,
    "s": r" \t-\r",
}


class View(NamedTuple):
    """View of a column."""

    column: str
    kind: str = TEXT_MACRO  # "x", "t" (test), "m" (match), or a name out of `COLUMN_FORMS`
    expression: str = ""  # Wapiti's regular expression, of "t" and "m"
    is_lower: bool = False  # the result is put in small letters

    def function(self) -> Callable[[str], str | None]:
        """Return the function from a text to its value, None for no feature."""
        if self.kind in COLUMN_FORMS:
            return COLUMN_FORMS[self.kind]
        if self.kind == TEXT_MACRO:
            return str.lower if self.is_lower else str
        search = Expression.parse(self.expression).matcher()
        if self.kind == TEST_MACRO:
            return lambda text: FALSE_TEXT if search(text) is None else TRUE_TEXT
        if self.is_lower:
            return lambda text: (search(text) or "").lower()
        return lambda text: search(text) or ""


MAX_MATCHER_STEPS = 10_000  # of Python's matcher at a text: about the time of `_search_by_table`


@dataclass(frozen=True)
class Expression:
    r"""Regular expression of Wapiti: `elements` are a character's expression, in Python's language, and `*`, `?` or
    nothing after it.

    Wapiti tries the beginnings of a text from the left, at each one the smaller number of repetitions first, and an
    optional character before none. If it drops the optional character, since the following elements did not match, it
    still counts the characters of that attempt, so that its match is too long: `a?ab` finds `abc` in `abcd`. This class
    does the same, since the match is in the names of features.
    """

    elements: tuple[tuple[str, str], ...]
    is_anchored: bool  # at the beginning, as the next at the end
    has_end: bool

    @classmethod
    @lru_cache(maxsize=1000)
    def parse(cls, expression: str) -> Expression:
        """Return the parsed expression; InputError for a malformed one."""
        elements: list[tuple[str, str]] = []
        is_anchored, has_end = expression.startswith("^"), False
        start = int(is_anchored)
        while start < len(expression):
            if expression[start:] == "$":
                has_end = True
                break
            if expression[start] in "*?":
                raise InputError(
                    f"expected a character before {expression[start]!r} in the expression {shorten(expression)}"
                )
            stop = start + 1 + (expression[start] == "\\")
            if stop > len(expression):
                raise InputError(
                    f"expected a character after the last \\ in the expression {shorten(expression)}"
                )
            repeat = expression[stop : stop + 1]
            repeat = repeat if repeat in ("*", "?") else ""
            piece = expression[start:stop]
            name = piece[-1]
            if len(piece) == 2 and name.lower() in CHARACTER_CLASSES:
                piece = f"[{'^' if name.isupper() else ''}{CHARACTER_CLASSES[name.lower()]}]"
            elif piece != ".":
                piece = re.escape(name)
            elements.append((piece, repeat))
            start = stop + len(repeat)
        return cls(tuple(elements), is_anchored, has_end)

    def matcher(self) -> Callable[[str], str | None]:
        """Return the function from a text to the match of Wapiti's matcher, or None, in time linear in its length."""
        pieces = [piece + ("*?" if repeat == "*" else repeat) for piece, repeat in self.elements]
        ends = r"\A" * self.is_anchored, r"\Z" * self.has_end
        find = re.compile(ends[0] + "".join(pieces) + ends[1], re.DOTALL).search
        repeats = [repeat for _, repeat in self.elements]
        # The maximum length of a text at which Python's matcher takes up to MAX_MATCHER_STEPS steps, -1 for none.
        max_steps = MAX_MATCHER_STEPS >> min(repeats.count("?"), MAX_MATCHER_STEPS.bit_length())
        power = repeats.count("*") + (not self.is_anchored)
        max_length = int(max_steps ** (1 / power)) - 1 if power else MAX_MATCHER_STEPS * min(max_steps, 1) - 1
        # The match has the right length if no required character follows an optional one.
        is_exact = "?" not in repeats or "" not in repeats[repeats.index("?") :]

        def search(text: str) -> str | None:
            if len(text) > max_length:
                return self._search_by_table(text)
            match = find(text)
            if match is None or is_exact:
                return None if match is None else match[0]
            return self._search_by_table(text[match.start() :])

        return search

    def _search_by_table(self, text: str) -> str | None:
        """Find the match without backtracking: O(elements x characters).

        From the last element to the first, `matches[j]` is whether the elements from this one on match at text[j:], and
        `lengths[j]` the number of characters that Wapiti counts there, match or not.
        """
        n = len(text)
        matches, lengths = [not self.has_end] * n + [True], [0] * (n + 1)
        for piece, repeat in reversed(self.elements):
            hits = {match.start() for match in re.finditer(piece, text, re.DOTALL)}
            after, after_lengths = [*matches, False], [*lengths, 0]
            for j in range(n, -1, -1):
                is_hit = j in hits
                if repeat == "*":
                    if not after[j]:
                        matches[j] = is_hit and matches[j + 1]
                        lengths[j] = 1 + (lengths[j + 1] if is_hit else 0)
                elif repeat == "?":
                    if is_hit and after[j + 1]:
                        matches[j], lengths[j] = True, 1 + after_lengths[j + 1]
                    else:
                        lengths[j] = after_lengths[j] + (after_lengths[j + 1] if is_hit else 0)
                else:
                    matches[j] = is_hit and after[j + 1]
                    lengths[j] = 1 + (after_lengths[j + 1] if is_hit else 0)
        starts = [0] if self.is_anchored else range(n + 1)
        start = next((j for j in starts if matches[j]), None)
        return None if start is None else text[start : start + lengths[start]]


# The weights of a feature are per label, per pair of neighbouring labels, or both.
UNIGRAM, BIGRAM, BOTH = "u", "b", "*"
FIRST_POSITION, LAST_POSITION, EVERYWHERE = "first", "last", ""
MAX_READINGS = 1_000_000  # of a name: some seconds


class Macro(NamedTuple):
    """Part of a pattern that depends on the data: a view at an offset from the position."""

    view: View
    offset: int  # if `is_absolute`, from 1 = the first position of the item, or from -1 = the last
    is_absolute: bool = False


@dataclass(frozen=True)
class Pattern:
    """Pattern of names: literals[0] + value of macros[0] + literals[1] + ... + literals[k].

    A macro that reaches beyond the item gives a mark, such as `_B-1`, if the pattern `has_marks`; else the pattern has
    no feature there. `restricted_to` limits a pattern to the first or the last position of an item. `kind` is UNIGRAM,
    BIGRAM or BOTH.
    """

    literals: tuple[str, ...]
    macros: tuple[Macro, ...] = ()
    has_marks: bool = True
    restricted_to: str = EVERYWHERE
    kind: str = UNIGRAM

    def name(self, values: tuple[str, ...]) -> str:
        """Return the name of the feature of these values."""
        pieces = [self.literals[0]]
        for value, literal in zip(values, self.literals[1:], strict=True):
            pieces += (value, literal)
        return "".join(pieces)

    def readings(self, name: str) -> Iterator[tuple[str, ...]]:
        """Yield all values of the macros that have this name: usually one, more if values contain the literals;
        InputError for more than MAX_READINGS."""
        first, *others = self.literals
        if not name.startswith(first):
            return
        if not others:
            yield from [()] * (name == first)
            return
        # The last place at which each literal may begin: every choice up to it leads to a reading.
        latest = [len(name) - len(others[-1])] if name.endswith(others[-1]) else [-1]
        for literal in reversed(others[:-1]):
            latest.append(name.rfind(literal, 0, max(latest[-1], 0)))
        if min(latest) < len(first):
            return
        for n, values in enumerate(self._rest(name, len(first), 1, latest[::-1])):
            if n == MAX_READINGS:
                raise InputError(
                    f"the name {shorten(name)} can be read in more than {MAX_READINGS:,} ways as "
                    f"{shorten('%'.join(self.literals))}, % being any text: put other literals between the macros"
                )
            yield values

    def _rest(self, name: str, start: int, number: int, latest: list[int]) -> Iterator[tuple[str, ...]]:
        """Yield the values of the macros from `number` on that name[start:] can be read as."""
        literal, last = self.literals[number], latest[number - 1]
        if number == len(self.macros):
            yield (name[start:last],)
            return
        at = name.find(literal, start)
        while 0 <= at <= last:
            for values in self._rest(name, at + len(literal), number + 1, latest):
                yield (name[start:at], *values)
            at = name.find(literal, at + 1) if at < len(name) else -1


CRFPP, WAPITI = "crf++", "wapiti"
# Positions beyond the item that have a mark: CRF++ takes no offset over 8, Wapiti's `#` is the mark of all after 4.
FARTHEST_MARKS = {CRFPP: 8, WAPITI: 4}
MACRO_PATTERN = re.compile(
    r'%(?P<kind>[a-zA-Z])\[(?P<origin>[@*]?)(?P<offset>[+-]?\d+),(?P<column>\d+)(?:,"(?P<expression>(?:\\.|[^"\\])*)")?\]'
)
ONLY_WAPITI = re.compile(r"^[ub*]|%[XtTmM]\[|%x\[@")


class PatternFile(NamedTuple):
    """Patterns of a file."""

    patterns: tuple[Pattern, ...]
    n_edge_patterns: int  # of pairs of neighbouring labels that read no token (`B`)
    dialect: str  # "crf++" or "wapiti"


def parse_patterns(text: str, columns: Sequence[str], dialect: str | None = None) -> PatternFile:
    """Read a pattern file, columns numbered from 0, by default in the dialect whose syntax it uses (CRF++'s if both
    have it). InputError names the line of a malformed pattern or an unknown column or macro; there must be a pattern.

    One pattern that reads no token, such as `B`, is a chain's transitions, and not among the patterns. Several of them
    are bigram features of every position: `B0` and `B1` have a weight each, to which a penalty applies, and `B` twice
    has one that counts twice.
    """
    lines = [(number, line.rstrip()) for number, line in enumerate(text.split("\n"), start=1)]
    lines = [(number, line) for number, line in lines if line and not line.startswith("#")]
    if dialect is None:
        dialect = WAPITI if any(ONLY_WAPITI.search(line) for _, line in lines) else CRFPP
    if dialect not in FARTHEST_MARKS:
        raise InputError(f"dialect: expected {CRFPP!r} or {WAPITI!r}, got {describe(dialect)}")
    patterns: list[Pattern] = []
    for number, line in lines:
        try:
            patterns.append(_parse_line(line, columns, dialect))
        except InputError as error:
            raise InputError(f"line {number}: {error}") from None
    edges = [pattern for pattern in patterns if pattern.kind != UNIGRAM and not pattern.macros]
    if all(pattern in edges and pattern.kind == BIGRAM for pattern in patterns):
        raise InputError("expected at least one pattern like U00:%x[0,0], got none")
    if len(edges) == 1:
        place = patterns.index(edges[0])
        patterns[place : place + 1] = [replace(edges[0], kind=UNIGRAM)] if edges[0].kind == BOTH else []
    return PatternFile(tuple(patterns), len(edges), dialect)


def marks(dialect: str) -> tuple[list[str], list[str]]:
    """Return the marks 1, 2, ... positions before the first position, and after the last."""
    letter = "B" if dialect == CRFPP else "x"
    numbers = [*map(str, range(1, FARTHEST_MARKS[dialect] + 1)), *([] if dialect == CRFPP else ["#"])]
    return [f"_{letter}-{number}" for number in numbers], [f"_{letter}+{number}" for number in numbers]


def _parse_line(line: str, columns: Sequence[str], dialect: str) -> Pattern:
    """Return the pattern of a line."""
    if dialect == WAPITI:
        line = line.partition("#")[0].rstrip()
        line = line[:1].lower() + line[1:]
    kinds = "ub*" if dialect == WAPITI else "UB"
    if line[:1] not in tuple(kinds):
        raise InputError(
            f"expected a pattern that begins with {', '.join(kinds[:-1])} or {kinds[-1]}, got {shorten(line)}"
        )
    matches = list(MACRO_PATTERN.finditer(line))
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
    return Pattern(literals, tuple(macros), kind=line[0].lower())


def _macro(match: re.Match[str], columns: Sequence[str], dialect: str) -> Macro:
    kind, shown = match["kind"].lower(), shorten(match[0])
    if kind not in "xtm" or (dialect == CRFPP and match["kind"] != TEXT_MACRO):
        known = "%x" if dialect == CRFPP else "%x, %t, %m and their capitals"
        raise InputError(f"unknown macro {shown}; {dialect} has {known}")
    if (kind == TEXT_MACRO) != (match["expression"] is None):
        raise InputError(f"{shown}: %x has two arguments, %t and %m have an expression in quotes after these")
    offset, column = int(match["offset"]), int(match["column"])
    if column >= len(columns):
        raise InputError(
            f"{shown} asks for column {column}; there are 0 to {len(columns) - 1}: {', '.join(columns)}"
        )
    if match["origin"] == "*":
        raise InputError(f"{shown}: offsets that are read from a column are not supported")
    if dialect == CRFPP and abs(offset) > FARTHEST_MARKS[CRFPP]:
        raise InputError(
            f"{shown}: expected an offset from -{FARTHEST_MARKS[CRFPP]} to {FARTHEST_MARKS[CRFPP]}"
        )
    if kind != TEXT_MACRO:
        Expression.parse(match["expression"])
    view = View(columns[column], kind, match["expression"] or "", match["kind"].isupper())
    return Macro(view, offset, match["origin"] == "@")
