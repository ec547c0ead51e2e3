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


def match_here(expression: str, text: str, length: int = 0) -> tuple[bool, int]:
    """Whether an expression matches at the beginning of a text, and the length that Wapiti counts, from `length` on:
    one counter for all attempts, which an optional character that is given up again sets back by 1 alone."""
    if not expression:
        return True, length
    if expression == "$":
        return not text, length
    size = 2 if expression[0] == "\\" else 1
    piece, rest = expression[:size], expression[size:]
    if rest[:1] == "*":
        for begin in range(len(text) + 1):
            found, after = match_here(rest[1:], text[begin:], length)
            if found:
                return True, after
            length += 1
            if not matches_one(piece, text[begin:]):
                break
        return False, length
    if rest[:1] == "?":
        if matches_one(piece, text):
            found, length = match_here(rest[1:], text[1:], length + 1)
            if found:
                return True, length
            length -= 1
        return match_here(rest[1:], text, length)
    if matches_one(piece, text):
        return match_here(rest, text[1:], length + 1)
    return False, length + 1


def match(expression: str, text: str) -> str | None:
    starts = [0] if expression.startswith("^") else range(len(text) + 1)
    for start in starts:
        found, length = match_here(expression.removeprefix("^"), text[start:])
        if found:
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
