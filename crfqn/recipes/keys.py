"""Sections of a TOML file with typed keys: from a table to a frozen dataclass, or an error that says what is wrong.

A field of the dataclass that `key` or `parameter` made is a key of the section. Anything unknown, of a wrong type or
out of range is a RecipeError that names file, section and key, what came and what is allowed.
"""

import difflib
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields, replace
from pathlib import Path
from typing import Any, TypeVar

from crfqn.errors import RecipeError
from crfqn.parameters import PARAMETERS, Parameter

KINDS = {float: "number", bool: "true or false", int: "integer", str: "text"}
Section = TypeVar("Section")


@dataclass(frozen=True)
class Key:
    """A key's rule, its default (MISSING for none), and the kinds of features or structures that alone have it."""

    rule: Parameter
    default: Any
    of: tuple[str, ...]


def key(default: Any, says: str, kind: type | None = None, *, of: str = "", **limits: Any) -> Any:
    """Declare a key of a section, by default of the kind of `default` (text where it has none); `of`: the kinds of
    features or structure that have it, separated by blanks; `limits` as of `Parameter`."""
    if kind is None:
        kind = str if default is None or default is MISSING else type(default)
    return _declared(Parameter(says, kind, **limits), default, of)


def parameter(name: str, default: Any = None, *, of: str = "", **changes: Any) -> Any:
    """Declare a key that is a parameter of the estimators; `changes` are those of its row in the table."""
    return _declared(replace(PARAMETERS[name], **changes), default, of)


def _declared(rule: Parameter, default: Any, of: str) -> Any:
    return field(default=default, metadata={"key": Key(rule, default, tuple(of.split()))})


def keys_in(cls: type, kind: str | None = None) -> dict[str, Key]:
    """Return the keys of a section by name, or those that it has for a kind of features or structure."""
    declared = {rule.name: rule.metadata["key"] for rule in fields(cls) if "key" in rule.metadata}
    return {name: key for name, key in declared.items() if kind is None or not key.of or kind in key.of}


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
