"""Text of model files and data on its way to a terminal: control codes are shown, not obeyed.

A label, a feature's name or a recipe's title may come from anyone. Escape sequences could move the cursor, retitle
the window or hide lines, line ends could forge lines, and marks of direction could show text in another order.
"""

import json
import re
from typing import Any

# C0, DEL and C1; the separators of lines and paragraphs; embeddings, overrides and isolates of direction.
CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
CONTROL_BUT_LINES = re.compile(CONTROL.pattern.replace("\x00-\x1f", "\x00-\x09\x0b-\x1f"))


def printable(text: Any) -> str:
    r"""Return the text with its control characters written out, `\x1b`, `\u2028`; other text stays as it is."""
    return CONTROL.sub(_written_out, str(text))


def printable_lines(text: str) -> str:
    """Return a text with its control characters written out, but for line ends."""
    return CONTROL_BUT_LINES.sub(_written_out, text)


def to_json(content: Any) -> str:
    """Return JSON that a terminal can show: control characters as JSON writes them, other letters as they are."""
    text = json.dumps(content, indent=2, ensure_ascii=False)
    return CONTROL_BUT_LINES.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def _written_out(found: re.Match[str]) -> str:
    code = ord(found[0])
    return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}"
