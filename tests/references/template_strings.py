"""Templates by plain strings: each feature's name is written out at each position, as CRF++ and Wapiti do it."""

from __future__ import annotations

import re

# Wapiti's own definition of its expressions, character by character.
ONE = {
    "a": lambda c: c.isascii() and c.isalpha(),
    "d": lambda c: c.isascii() and c.isdigit(),
    "l": lambda c: "a" <= c <= "z",
    "u": lambda c: "A" <= c <= "Z",
    "w": lambda c: c.isascii() and c.isalnum(),
    "p": lambda c: c in "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~",
    "s": lambda c: c in " \t\n\v\f\r",
}


def matches_one(piece: str, text: str) -> bool:
    if not text:
        return False
    if piece == ".":
        return True
    if len(piece) == 2 and piece[1].lower() in ONE:
        return ONE[piece[1].lower()](text[0]) != piece[1].isupper()
    return text[0] == piece[-1]


def match_here(expression: str, text: str) -> int | None:
    """The length of the first match that Wapiti finds at the beginning of a text."""
    if not expression:
        return 0
    if expression == "$":
        return 0 if not text else None
    size = 2 if expression[0] == "\\" else 1
    piece, rest = expression[:size], expression[size:]
    if rest[:1] == "*":
        for length in range(len(text) + 1):
            found = match_here(rest[1:], text[length:])
            if found is not None:
                return length + found
            if not matches_one(piece, text[length:]):
                return None
        return None
    if rest[:1] == "?":
        if matches_one(piece, text) and (found := match_here(rest[1:], text[1:])) is not None:
            return 1 + found
        return match_here(rest[1:], text)
    if matches_one(piece, text) and (found := match_here(rest, text[1:])) is not None:
        return 1 + found
    return None


def match(expression: str, text: str) -> str | None:
    if expression.startswith("^"):
        length = match_here(expression[1:], text)
        return None if length is None else text[:length]
    for start in range(len(text) + 1):
        length = match_here(expression, text[start:])
        if length is not None:
            return text[start : start + length]
    return None


MACRO = re.compile(r'%([xtmXTM])\[(@?)(-?\d+),(\d+)(?:,"((?:\\.|[^"\\])*)")?\]')


def expand(pattern: str, item: list[list[str]], t: int, is_wapiti: bool) -> str:
    """The name of a pattern's feature at position t of an item, a list of rows."""
    letter = "x" if is_wapiti else "B"

    def replaced(found: re.Match) -> str:
        kind, origin, offset, column, expression = found.groups()
        at = t + int(offset)
        if origin:
            at = int(offset) - 1 if int(offset) >= 0 else len(item) + int(offset)
        if 0 <= at < len(item):
            value = item[at][int(column)]
        else:
            distance = -at if at < 0 else at - len(item) + 1
            number = "#" if is_wapiti and distance > 4 else distance
            value = f"_{letter}{'-' if at < 0 else '+'}{number}"
        if kind in "tT":
            return "false" if match(expression, value) is None else "true"
        if kind in "mM":
            value = match(expression, value) or ""
        return value.lower() if kind.isupper() else value

    if is_wapiti:
        pattern = pattern[0].lower() + pattern[1:]
    return MACRO.sub(replaced, pattern)


def features_of(patterns: list[str], items: list[list[list[str]]], is_wapiti: bool) -> list[list[str]]:
    """The names of the features of every position, those of `B` patterns left out."""
    return [
        [expand(pattern, item, t, is_wapiti) for pattern in patterns if pattern[0] in "Uu*"]
        for item in items
        for t in range(len(item))
    ]
