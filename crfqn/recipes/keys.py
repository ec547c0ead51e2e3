"""Sections of a TOML file with typed keys: from a table to a frozen dataclass, or an error that says what is wrong.

A field of the dataclass that `key` made is a key of the section. Anything unknown, of a wrong type or out of range is
a RecipeError that names file, section and key, what came and what is allowed.
"""

import difflib
import math
from collections.abc import Mapping
from dataclasses import MISSING, Field, field, fields
from pathlib import Path
from typing import Any, TypeVar, get_args

from crfqn.errors import RecipeError

KINDS = {float: "number", bool: "true or false", int: "integer", str: "text"}  # by the first of a key's types
Section = TypeVar("Section")


def key(
    default: Any,
    says: str,
    *,
    choices: tuple[str, ...] = (),
    low: float | None = None,
    above: float | None = None,
    words: tuple[str, ...] = (),
    of: str = "",
) -> Any:
    """Declare a key of a section: its default and what it means, in a few words.

    Beside its type it may have `choices`, a range (>= `low`, > `above`), `words` instead of a number, and the kinds
    `of` features or structures, separated by blanks, that alone have it.
    """
    rule = {"says": says, "choices": choices, "low": low, "above": above, "words": words, "of": of.split()}
    return field(default=default, metadata=rule)


def keys_in(cls: type, kind: str | None = None) -> dict[str, Field[Any]]:
    """Return the keys of a section by name, or those that it has for a kind of features or structure."""
    rules = {rule.name: rule for rule in fields(cls) if "says" in rule.metadata}
    return {
        name: rule
        for name, rule in rules.items()
        if kind is None or not rule.metadata["of"] or kind in rule.metadata["of"]
    }


def read_section(
    cls: type[Section], source: str | Path, where: str, table: Mapping[str, Any], **ready: Any
) -> Section:
    """Return a section as a dataclass, read from its table; `ready` are fields that were read before."""
    rules = keys_in(cls)
    check_names(source, where, table, tuple(rules))
    values = {}
    for name, rule in rules.items():
        if name in table:
            values[name] = _checked(f"{source}: {where} {name}", table[name], rule)
        elif rule.default is MISSING:
            raise RecipeError(f"{source}: {where} lacks the key {name}: expected {_expected(rule)}")
    return cls(**values, **ready)


def _type_of(rule: Field[Any]) -> type:
    types = get_args(rule.type) or (rule.type,)
    return next(kind for kind in KINDS if kind in types)


def _checked(where: str, value: Any, rule: Field[Any]) -> Any:
    limits, kind = rule.metadata, _type_of(rule)
    if isinstance(value, str) and value in limits["words"]:
        return value
    is_right = isinstance(value, (int, float) if kind is float else kind)
    is_right = is_right and (kind is bool or not isinstance(value, bool))
    is_right = is_right and (not limits["choices"] or value in limits["choices"])
    is_right = is_right and (kind is not float or math.isfinite(value))
    is_right = is_right and (limits["low"] is None or value >= limits["low"])
    if not is_right or (limits["above"] is not None and value <= limits["above"]):
        raise RecipeError(f"{where} = {shown(value)}: expected {_expected(rule)}")
    return float(value) if kind is float else value


def _expected(rule: Field[Any]) -> str:
    limits = rule.metadata
    if limits["choices"]:
        return "one of " + ", ".join(f'"{choice}"' for choice in limits["choices"])
    kind = "".join(f'"{word}" or ' for word in limits["words"]) + KINDS[_type_of(rule)]
    if limits["low"] is not None:
        return f"{kind} >= {limits['low']:g}"
    return f"{kind} > {limits['above']:g}" if limits["above"] is not None else kind


def read_table(source: str | Path, where: str, value: Any) -> dict[str, Any]:
    """Return a copy of a TOML table; RecipeError if the value is none."""
    if not isinstance(value, Mapping):
        raise RecipeError(f"{source}: expected a section {where}, got {shown(value)}")
    return dict(value)


def check_names(source: str | Path, where: str, table: Mapping[str, Any], allowed: tuple[str, ...]) -> None:
    """Raise RecipeError for keys that are not among the allowed ones."""
    for name, value in table.items():
        if name not in allowed:
            near = difflib.get_close_matches(name, allowed, n=1)
            hint = f" (did you mean {near[0]}?)" if near else ""
            raise RecipeError(
                f"{source}: {where} has an unknown key: {name} = {shown(value)}{hint}; "
                f"allowed: {', '.join(allowed)}"
            )


def shown(value: Any) -> str:
    """Return a value as TOML writes it."""
    if isinstance(value, bool):
        return str(value).lower()
    return "nothing" if value is None else f'"{value}"' if isinstance(value, str) else f"{value}"
