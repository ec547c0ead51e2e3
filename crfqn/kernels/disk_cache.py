"""Cache of compiled kernels on disk, valid as long as no kernel's source has changed.

Numba's own cache of a function only notices changes of the function's file, by its date. But a kernel's code holds that
of the kernels that it calls, and constants of other files: an edit there has to compile it anew too. And dates change
where files are copied, as into the image of a container, whose machine code would be lost. So content decides. The
processor and the version of numba are in numba's own key.
"""

import hashlib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from numba.core.caching import FunctionCache, IndexDataCacheFile


class KernelCache(FunctionCache):
    """Numba's cache of one function of this package, stale once any kernel's source has changed.

    Numba chooses the folder: NUMBA_CACHE_DIR, else beside the source, else the user's; RuntimeError if none can be
    written.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function)
        locator = self._impl.locator
        self._cache_file = IndexDataCacheFile(
            cache_path=locator.get_cache_path(),
            filename_base=self._impl.filename_base,
            source_stamp=hash_of_kernels(),
        )


@cache
def hash_of_kernels() -> str:
    """Return the SHA-256 of all kernels' source files, here and beside their solvers, with their names; read once."""
    folder, found = Path(__file__).parents[1], hashlib.sha256()
    for path in sorted([*folder.rglob("kernels/**/*.py"), *folder.rglob("*_kernels.py")]):
        content = path.read_bytes()
        found.update(f"{path.relative_to(folder).as_posix()} {len(content)}\n".encode())
        found.update(content)
    return found.hexdigest()
