"""Sections of a TOML file with typed keys: from a table to a frozen dataclass, or an error that says what is wrong.

A field of the dataclass that `key` made is a key of the section. Anything unknown, of a wrong type or out of range is
a RecipeError that names file, section and key, what came and what is allowed.
"""

import difflib
import math
from collections.abc import Mapping
from dataclasses import MISSING, field, fields
from pathlib import Path
from typing import Any, TypeVar

from crfqn.errors import RecipeError

KINDS: dict[str, tuple[type, ...]] = {
    "text": (str,),
    "number": (int, float),
    "integer": (int,),
    "true or false": (bool,),
}
Section = TypeVar("Section")


def key(
    kind: str,
    default: Any = MISSING,
    *,
    choices: tuple[str, ...] = (),
    low: float | None = None,
    above: float | None = None,
    words: tuple[str, ...] = (),
    says: str = "",
) -> Any:
    """Declare a key of a section: its kind, default, choices, range (>= `low`, > `above`), `words` instead of it.

    `says`: what it means, in a few words.
    """
    rule = {"kind": kind, "choices": choices, "low": low, "above": above, "words": words, "says": says}
    return field(default=default, metadata=rule)


def read_section(
    cls: type[Section], source: str | Path, where: str, table: Mapping[str, Any], **ready: Any
) -> Section:
    """Return a section as a dataclass, read from its table; `ready` are fields that were read before."""
    rules = {rule.name: rule for rule in fields(cls) if "kind" in rule.metadata}  # type: ignore[arg-type]
    check_names(source, where, table, tuple(rules))
    values = {}
    for name, rule in rules.items():
        if name in table:
            values[name] = _checked(f"{source}: {where} {name}", table[name], rule.metadata)
        elif rule.default is MISSING:
            raise RecipeError(f"{source}: {where} lacks the key {name}: expected {_expected(rule.metadata)}")
    return cls(**values, **ready)


def _checked(where: str, value: Any, rule: Mapping[str, Any]) -> Any:
    if isinstance(value, str) and value in rule["words"]:
        return value
    kinds = KINDS[rule["kind"]]
    is_right = isinstance(value, kinds) and (isinstance(value, bool) <= (bool in kinds))
    if is_right and rule["choices"]:
        is_right = value in rule["choices"]
    if is_right and float in kinds:
        is_right = math.isfinite(value)
    if is_right and rule["low"] is not None:
        is_right = value >= rule["low"]
    if is_right and rule["above"] is not None:
        is_right = value > rule["above"]
    if not is_right:
        raise RecipeError(f"{where} = {shown(value)}: expected {_expected(rule)}")
    return float(value) if float in kinds else value


def _expected(rule: Mapping[str, Any]) -> str:
    if rule["choices"]:
        return "one of " + ", ".join(f'"{choice}"' for choice in rule["choices"])
    kind = "".join(f'"{word}" or ' for word in rule["words"]) + rule["kind"]
    if rule["low"] is not None:
        return f"{kind} >= {rule['low']:g}"
    return f"{kind} > {rule['above']:g}" if rule["above"] is not None else kind


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
