"""What an objective in memory offers besides values, gradients and rays: views, and the states of methods.

A view is a question about the problem; the table is filled in by the modules of `views/`. A state is what one method
keeps over the items themselves; it lives in the method's folder and is made by `objective.state(kind, ...)`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, TypeVar

from crfqn.errors import ViewError

F = TypeVar("F", bound=Callable[..., Any])
V = TypeVar("V")
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


class MethodState:
    """Base of what a method keeps over the items: dual variables, dense rows, margins that follow every step.

    Attributes
    ----------
    is_constrained : whether it is made of a bound on the loss, in the place of the loss
    takes_blocks : whether it is made of items that come in blocks, too
    """

    is_constrained: ClassVar[bool] = False
    takes_blocks: ClassVar[bool] = False

    def __init__(self, objective: Any, *arguments: Any) -> None:
        raise NotImplementedError

    @classmethod
    def make(cls, objective: Any, *arguments: Any) -> Any:
        """Return the state of an objective; arguments as of the class."""
        return cls(objective, *arguments)

    @classmethod
    def check(cls, objective: Any) -> None:
        """Raise ViewError for objectives, sums of `objective.parts`, of which it cannot be made."""


class InMemory:
    """An objective whose items are at hand, in one piece or in `parts`."""

    parts: list[Any]

    def view(self, kind: type[V]) -> V:
        """Return what a family of solvers needs besides (`protocols/`), or raise ViewError."""
        return make_view(kind, self)

    def check_state(self, kind: type[MethodState]) -> None:
        """Raise ViewError unless the state of a method can be made."""
        if kind.is_constrained or not (kind.takes_blocks or self.parts[0] is self):
            raise ViewError(f"{type(self).__name__} has no {kind.__name__}")
        kind.check(self)

    def state(self, kind: type[S], *arguments: Any) -> S:
        """Return the state of a method, or raise ViewError; arguments as of its class."""
        self.check_state(kind)
        return kind.make(self, *arguments)


S = TypeVar("S", bound=MethodState)
