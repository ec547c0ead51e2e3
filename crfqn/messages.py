"""Values as messages and pages show them: short, with their type, without control characters."""

import re
from typing import Any

# C0, DEL and C1; the separators of lines and paragraphs; embeddings, overrides and isolates of direction.
CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")


def describe(value: Any) -> str:
    """Return a value as text with its type, "None" for None."""
    return "None" if value is None else f"{shorten(value)} of type {type(value).__name__}"


def shorten(value: Any) -> str:
    """Return the representation of a value, cut to 60 characters."""
    is_long = isinstance(value, int) and abs(value) >= 10**40
    text = "an integer of 40 digits or more" if is_long else repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def printable(text: Any) -> str:
    r"""Return the text with its control characters written out, `\x1b`, `\u2028`; other text stays as it is."""
    return CONTROL.sub(written_out, str(text))


def written_out(match: re.Match[str]) -> str:
    r"""Return a control character of a match as Python writes it, `\x1b`."""
    code = ord(match[0])
    return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}"
