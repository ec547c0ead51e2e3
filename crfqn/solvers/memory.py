"""A name of earlier versions, for solvers of users: checkpoints have weights and trace now, and no solver's memory."""

from __future__ import annotations

from typing import TypeVar

from crfqn.errors import warn_caller

T = TypeVar("T", bound=type)


def remembered(kind: T) -> T:
    """Return the class as it is: nothing has to be declared any more."""
    warn_caller("crfqn.solvers.memory: checkpoints have weights alone, remove @remembered", FutureWarning)
    return kind
