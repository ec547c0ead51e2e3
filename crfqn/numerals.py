"""Parsing of numbers in files, options and models of other tools.

Python also accepts `1_0`, digits of other scripts, surrounding white space, `nan` and `infinity`. In a file these are
damage, words, or missing values, and must not become numbers without an error.
"""

import math

DECIMAL_DIGITS = "0123456789"
NUMBER_CHARACTERS = f"{DECIMAL_DIGITS}+-.eE"  # the characters of decimal numbers
BLANKS = " \t"


def number_in(text: str) -> float:
    """Return the decimal number of a text, such as `-1.5` or `2e-3`, infinite if it is too large; NaN for any other
    text, including numbers with surrounding blanks."""
    try:
        return math.nan if text.strip(NUMBER_CHARACTERS) else float(text)
    except ValueError:
        return math.nan


def whole_number_in(text: str) -> int:
    """Return the integer of a text of decimal digits with an optional sign; ValueError for any other text, and for
    thousands of digits."""
    if text.strip(f"{DECIMAL_DIGITS}+-"):
        raise ValueError(f"expected a whole number, got {text[:60]!r}")
    return int(text)
