"""The table of views by objective, which the modules of `views/` fill in."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from crfqn.errors import ViewError

F = TypeVar("F", bound=Callable[..., Any])
_makers: dict[tuple[type, type], Callable[..., Any]] = {}


def offers(kind: type, of: type) -> Callable[[F], F]:
    """Register what makes a view of a kind for objectives of a class; it may raise ViewError itself."""

    def register(maker: F) -> F:
        _makers[kind, of] = maker
        return maker

    return register


def make_view(kind: type, objective: Any) -> Any:
    """Return a view of an objective, or raise ViewError."""
    for owner in type(objective).__mro__:
        if (kind, owner) in _makers:
            return _makers[kind, owner](objective)
    raise ViewError(f"{type(objective).__name__} has no {kind.__name__}")
