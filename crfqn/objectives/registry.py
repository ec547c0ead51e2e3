"""What one method keeps over the items themselves: its state, made by `objective.state(kind, ...)`.

It lives in the method's folder; an objective whose items are elsewhere has none.
"""

from __future__ import annotations

from typing import Any, ClassVar


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
