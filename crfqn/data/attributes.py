"""Attributes as CRFsuite's Python bindings name them: `word:dog`, where crfqn's own dicts give `word=dog`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from crfqn.data.items import check_is_list_of_items, wrap_hint
from crfqn.errors import InputError
from crfqn.messages import describe, place_of, shorten

ATTRIBUTE_SEPARATOR = ":"
COLLECTION_TYPES = (list, tuple, set, frozenset)


def attributes(X: Iterable[Any]) -> list[list[dict[str, float]]]:
    """Return items as lists of dicts from attribute to number, made as python-crfsuite makes them.

    Parameters
    ----------
    X : iterable of items
        An item is an iterable of positions (or a `pycrfsuite.ItemSequence`). A position is an iterable of strings, or
        a dict: a number or a boolean gives the attribute `key` this value, a string the attribute `key:string` the
        value 1, and a list, a set or a dict gives all attributes in it, with the prefix `key:`. The values of an
        attribute that occurs twice are summed.

    Raises
    ------
    InputError
        Names the item, position and key, what was expected and what came.

    Examples
    --------
    >>> attributes([[{"word": "dog", "is": {"title": False}, "suffix": ["g", "og"]}]])
    [[{'word:dog': 1.0, 'is:title': 0.0, 'suffix:g': 1.0, 'suffix:og': 1.0}]]
    """
    check_is_list_of_items(X, "a list of items")
    items = []
    for i, item in enumerate(X):
        if hasattr(item, "items") and not isinstance(item, Mapping):  # pycrfsuite.ItemSequence
            item = item.items()
        if isinstance(item, (str, bytes, Mapping)) or not isinstance(item, Iterable):
            raise InputError(
                f"{place_of(i)}: expected a list of positions, got {describe(item)}{wrap_hint(item)}"
            )
        positions: list[dict[str, float]] = []
        for position in item:
            entries: dict[str, float] = {}
            try:
                _add(entries, "", position)
            except InputError as error:
                raise InputError(f"{place_of(i, len(positions))}: {error}") from None
            positions.append(entries)
        items.append(positions)
    return items


def _add(entries: dict[str, float], prefix: str, features: object) -> None:
    """Add the attributes of a position, or of a collection within one, each with the prefix before its name."""
    if isinstance(features, Mapping):
        for key, value in features.items():
            name = prefix + _text(key)
            kind = type(value)
            if kind is str or isinstance(value, (str, bytes)):
                name, number = f"{name}{ATTRIBUTE_SEPARATOR}{_text(value)}", 1.0
            elif isinstance(value, (Mapping, *COLLECTION_TYPES)):
                _add(entries, name + ATTRIBUTE_SEPARATOR, value)
                continue
            else:
                try:
                    number = float(value)
                except (TypeError, ValueError, OverflowError):
                    raise InputError(
                        f"feature {shorten(name)}: expected a number, boolean, string, list, set or dict, "
                        f"got {describe(value)}"
                    ) from None
            entries[name] = entries[name] + number if name in entries else number
    elif isinstance(features, Iterable) and not isinstance(features, (str, bytes)):
        for key in features:
            name = prefix + _text(key)
            entries[name] = entries.get(name, 0.0) + 1.0
    else:
        raise InputError(f"expected a dict, or a list or set of strings, got {describe(features)}")


def _text(value: object) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bytes):
        return value.decode("utf-8", "surrogateescape")
    raise InputError(f"expected attributes that are strings, got {describe(value)}")
