"""JSON as in its standard, stricter than Python's module: the keys of an object are distinct, there is no NaN, and
texts can be encoded (RFC 8259; RFC 7493, I-JSON)."""

from __future__ import annotations

import json
import re
from typing import Any, NoReturn

from crfqn.errors import InputError
from crfqn.messages import shorten

# Both halves of a character, escaped; or one half alone (group 1); or any other escape.
ESCAPE_PATTERN = re.compile(
    r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\u([dD][89a-fA-F][0-9a-fA-F]{2})|\\.",
    re.DOTALL,
)
HALF_CHARACTER = re.compile(r"\\u[dD][89a-fA-F]")


def parse_json(text: str | bytes, errors: str = "strict") -> Any:
    """Return the content of JSON; ValueError, with the reason and the number of characters before it, for anything
    else, for a key that an object has twice, and for half of a character, a lone surrogate such as "\\ud83d", unless
    UTF-8 encodes it with these `errors`."""
    if isinstance(text, bytes):
        text = text.decode("utf-8-sig")
    if HALF_CHARACTER.search(text):
        for match in ESCAPE_PATTERN.finditer(text):
            if match[1] is not None and not _can_be_encoded(chr(int(match[1], 16)), errors):
                raise ValueError(
                    f"half of a character, {match[0]} without the other half, is no text, after {match.start()} "
                    "characters"
                )
    try:
        return STRICT_DECODER.decode(text)
    except json.JSONDecodeError as error:
        raise ValueError(f"{error.msg[:1].lower()}{error.msg[1:]}, after {error.pos} characters") from error


def _can_be_encoded(text: str, errors: str) -> bool:
    try:
        text.encode("utf-8", errors)
    except UnicodeEncodeError:
        return False
    return True


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    content = dict(pairs)
    if len(content) < len(pairs):
        keys = [key for key, _ in pairs]
        raise ValueError(f"the key {shorten(next(key for key in keys if keys.count(key) > 1))} comes twice")
    return content


def _refuse_number(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number of JSON")


STRICT_DECODER = json.JSONDecoder(object_pairs_hook=_distinct, parse_constant=_refuse_number)


def strict_json(content: object, **how: Any) -> str:
    """Return JSON, lone surrogates escaped; InputError for NaN and infinite numbers, which JSON lacks."""
    try:
        text = json.dumps(content, allow_nan=False, **how)
        return text.encode("utf-8", "backslashreplace").decode()
    except ValueError as error:
        raise InputError(f"expected finite numbers, as JSON has no others: {error}") from None
