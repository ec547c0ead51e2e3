"""What users fit: estimators, and what they are made of.

Importing them imports scikit-learn without what its base imports and no training uses: scipy.stats, and pandas where it
is installed.

`import sklearn.base` imports both for one function each that it does not call. scipy.stats brings scipy.optimize,
scipy.spatial, scipy.ndimage and others, 33 MB and .5 s of a start; pandas brings pyarrow, 65 MB and .4 s
(`scripts/footprint.py`).
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import LazyLoader
from threading import get_ident
from types import ModuleType


class LightFinder:
    """Finder that, in one thread, loads `lazy` modules when they are first used and finds none of `absent`."""

    def __init__(self, lazy: Sequence[str], absent: Sequence[str]) -> None:
        self.lazy, self.absent, self.thread = lazy, absent, get_ident()

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if get_ident() != self.thread:
            return None
        if fullname in self.absent:
            raise ModuleNotFoundError(f"left out: {fullname}", name=fullname)
        spec = PathFinder.find_spec(fullname, path, target) if fullname in self.lazy else None
        if spec is not None and spec.loader is not None:
            spec.loader = LazyLoader(spec.loader)
        return spec


def import_scikit_learn() -> None:
    """Import scikit-learn's base, if it is not there yet; pandas can be imported afterwards as before."""
    if "sklearn.utils.fixes" in sys.modules:
        return
    finder = LightFinder(lazy=("scipy.stats",), absent=("pandas",))
    sys.meta_path.insert(0, finder)
    try:
        import sklearn.base  # noqa: F401
    finally:
        sys.meta_path.remove(finder)


import_scikit_learn()
