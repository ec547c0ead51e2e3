"""Values as error messages show them: short, and with their type."""

from typing import Any


def describe(value: Any) -> str:
    """Return a value as text with its type, "None" for None."""
    return "None" if value is None else f"{shorten(value)} of type {type(value).__name__}"


def shorten(value: Any) -> str:
    """Return the representation of a value, cut to 60 characters."""
    text = (
        repr(value)
        if not isinstance(value, int) or abs(value) < 10**40
        else "an integer of 40 digits or more"
    )
    return text if len(text) <= 60 else f"{text[:57]}..."
