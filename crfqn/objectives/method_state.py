"""What a method keeps over the items themselves: asked of an objective by its class."""

from __future__ import annotations

from typing import Any, ClassVar, TypeVar

from crfqn.errors import ViewError


class MethodState:
    """Base of what a method keeps over the items: dual variables, dense rows, margins that follow every step.

    It lives in the method's folder and is made by `objective.state(kind, ...)`, of items that are at hand.

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


S = TypeVar("S", bound=MethodState)


def has_state(objective: Any, kind: type[MethodState]) -> bool:
    """Return whether a method's state can be made of an objective."""
    try:
        objective.check_state(kind)
    except ViewError:
        return False
    return True
