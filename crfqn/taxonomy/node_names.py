"""Names of nodes: which may be one, and how messages list them."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable
from typing import Any

import numpy as np

from crfqn.errors import InputError
from crfqn.wording import describe, shorten

MOST_SHOWN = 3  # of a list of names in an error message


def plain_name(name: Any) -> Hashable:
    """Return a node's name as Python's own str, int, float or bool.

    Raises
    ------
    InputError
        It is of another type, an empty string or not finite.
    """
    if isinstance(name, str):
        if not name.strip():
            raise InputError(f"expected node names with at least one visible character, got {name!r}")
        return str.__str__(name)
    if isinstance(name, np.generic):
        name = name.item()
    if not isinstance(name, (int, float)) or not math.isfinite(name):
        hint = "; the parts of a path are joined to one name, as in 'a/b'" if isinstance(name, tuple) else ""
        raise InputError(f"expected strings or finite numbers as node names, got {describe(name)}{hint}")
    return name


def check_distinct(names: tuple[Hashable, ...]) -> None:
    if len(set(names)) == len(set(map(str, names))) == len(names):
        return
    seen: dict[Hashable, Hashable] = {}
    for name in names:
        other = seen.get(name, seen.get(("text", str(name))))
        if other is not None:
            raise InputError(
                f"expected distinct node names, but {shorten(name)} comes twice"
                if type(other) is type(name)
                else f"node names must differ, also as text, but {describe(other)} and {describe(name)} do not"
            )
        seen[name] = seen["text", str(name)] = name


def listed(names: Iterable[Hashable]) -> str:
    every = list(names)
    shown = [shorten(name) for name in every[:MOST_SHOWN]]
    last = f"{len(every) - MOST_SHOWN} more" if len(every) > MOST_SHOWN else shown.pop()
    return f"{', '.join(shown)} and {last}" if shown else last


def with_type(name: Hashable, other: Hashable) -> str:
    return shorten(name) if type(name) is type(other) else describe(name)
