"""Text of model files and data on its way to a terminal: control codes are shown, not obeyed.

A label, a feature's name or a recipe's title may come from anyone. Escape sequences could move the cursor, retitle
the window or hide lines, line ends could forge lines, and marks of direction could show text in another order.
"""

import json
import re
from typing import Any

from crfqn.wording import CONTROL, printable, written_out

__all__ = ["printable", "printable_lines", "to_json"]

CONTROL_BUT_LINES = re.compile(CONTROL.pattern.replace("\x00-\x1f", "\x00-\x09\x0b-\x1f"))


def printable_lines(text: str) -> str:
    """Return a text with its control characters written out, but for line ends."""
    return CONTROL_BUT_LINES.sub(written_out, text)


def to_json(content: Any) -> str:
    """Return JSON that a terminal can show: control characters as JSON writes them, other letters as they are."""
    text = json.dumps(content, indent=2, ensure_ascii=False)
    return CONTROL_BUT_LINES.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
