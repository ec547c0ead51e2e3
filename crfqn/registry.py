"""Classes and functions by name, so that tables can name them before they are imported.

`crfqn/__init__.py` registers each name with its module, which is imported when the name is first used. So a folder can
use a class of a higher layer, such as a method of a paper.
"""

from __future__ import annotations

TYPE_CHECKING = False  # `typing` takes longer to import than the rest of `import crfqn`
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

_IMPORTS: dict[str, Callable[[str], Any]] = {}


def register(names: Iterable[str], load: Callable[[str], Any]) -> None:
    """Register names with the function that returns the class or function of a name."""
    _IMPORTS.update(dict.fromkeys(names, load))


def find(name: str) -> Any:
    """Return the class or function that is registered under a name; KeyError for another name."""
    return _IMPORTS[name](name)
