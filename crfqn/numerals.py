"""Numbers as files, options and models of other tools spell them.

Python reads more than that as a number: `1_0`, digits of other scripts, any white space around, `nan`, `infinity`. In a
file these are damage, a word, or a missing value, and must not become a number without a word.
"""

import math

DIGITS = "0123456789"
CHARACTERS = f"{DIGITS}+-.eE"  # of these Python makes no other numbers than decimal ones
BLANKS = " \t"


def number_in(text: str) -> float:
    """Return the decimal number that a text is, `-1.5` or `2e-3`, infinite if it is too large; NaN for any other
    text, and for blanks around it."""
    try:
        return math.nan if text.strip(CHARACTERS) else float(text)
    except ValueError:
        return math.nan


def whole_number_in(text: str) -> int:
    """Return the number that the decimal digits of a text are, with a sign or without; ValueError for any other text,
    and for thousands of digits."""
    if text.strip(f"{DIGITS}+-"):
        raise ValueError(f"expected a whole number, got {text[:60]!r}")
    return int(text)
