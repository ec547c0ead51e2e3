"""`flatten`, under the module name that it has in sklearn-crfsuite."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain
from typing import Any


def flatten(y: Iterable[Iterable[Any]]) -> list:
    """Return the labels of all items in one list."""
    return list(chain.from_iterable(y))
