"""Sections of a TOML file with typed keys: from a table to a frozen dataclass, or an error that says what is wrong.

The keys are those of `crfqn.data_options`. Anything unknown, of a wrong type or
out of range is a RecipeError that names file, section and key, what came and what is allowed.
"""

import difflib
from collections.abc import Mapping
from dataclasses import MISSING
from pathlib import Path
from typing import Any, TypeVar

from crfqn.data_options import keys_in
from crfqn.errors import RecipeError
from crfqn.parameters import Parameter

KINDS = {float: "number", bool: "true or false", int: "integer", str: "text"}
Section = TypeVar("Section")


def read_section(
    cls: type[Section], source: str | Path, where: str, table: Mapping[str, Any], **ready: Any
) -> Section:
    """Return a section as a dataclass, read from its table; `ready` are fields that were read before."""
    declared = keys_in(cls)
    check_names(source, where, table, tuple(declared))
    for name, key in declared.items():
        if name not in table:
            if key.default is MISSING:
                raise RecipeError(f"{source}: {where} lacks the key {name}: expected {_expected(key.rule)}")
        elif not key.rule.allows(table[name]):
            raise RecipeError(
                f"{source}: {where} {name} = {shown(table[name])}: expected {_expected(key.rule)}"
            )
        else:
            is_number = key.rule.kind is float and not isinstance(table[name], str)
            ready[name] = float(table[name]) if is_number else table[name]
    return cls(**ready)


def _expected(rule: Parameter) -> str:
    """Return what a key may be, as TOML writes it."""
    if rule.choices:
        return "one of " + ", ".join(map(shown, rule.choices))
    return (
        "".join(f"{shown(word)} or " for word in rule.words)
        + (KINDS.get(rule.kind) or rule.expects)
        + rule.limit
    )


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
