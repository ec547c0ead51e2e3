"""Cache of compiled kernels on disk, valid as long as no kernel's source has changed.

Numba's own cache of a function only notices changes of the function's file, by its date. But a kernel's code holds that
of the kernels that it calls, and constants of other files: an edit there has to compile it anew too. And dates change
where files are copied, as into the image of a container, whose machine code would be lost. So content decides. The
processor and the version of numba are in numba's own key.

The cache is a convenience: what cannot be read is compiled anew and replaced, and what cannot be written stays with
its process. Each is said once a process, not once a kernel.
"""

import hashlib
import pickle
import warnings
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from numba.core.caching import FunctionCache, IndexDataCacheFile

_said: set[str] = set()


def warn_once(what: str, details: str) -> None:
    """Warn of a fault of the cache, the first time in this process."""
    if what not in _said:
        _said.add(what)
        warnings.warn(f"{what} ({details})", RuntimeWarning, stacklevel=4)


def warn_not_kept(error: Exception) -> None:
    """Warn, once, that machine code cannot be written to disk."""
    warn_once(
        "compiled code cannot be kept, so every process compiles anew; name a folder that can be written in the "
        "environment variable NUMBA_CACHE_DIR",
        str(error),
    )


class KernelFiles(IndexDataCacheFile):
    """Numba's files of one function, an index and machine code, whose damage is noticed before the code is run.

    Machine code is stored with what it belongs to and a checksum: where the disk is full, an index may be new and
    the code that it names old.
    """

    def save(self, key: Any, data: Any) -> None:
        """Write the machine code `data` of a signature and processor, in the place of what was there."""
        content = self._dump((self._source_stamp, key, data))
        super().save(key, (hashlib.sha256(content).digest(), content))

    def load(self, key: Any) -> Any:
        """Return the machine code of a signature and processor, or None where there is none that is sound."""
        try:
            found = super().load(key)
            if found is None:
                return None
            digest, content = found
            if hashlib.sha256(content).digest() != digest:
                raise ValueError("wrong checksum")
            *owner, data = pickle.loads(content)
        except Exception as error:  # to unpickle what is damaged raises anything
            return self._warn_damaged(error)
        return data if owner == [self._source_stamp, key] else None

    def _load_index(self) -> dict[Any, str]:
        try:
            return super()._load_index()
        except (ImportError, AttributeError):
            return {}  # of a version whose types stand elsewhere: obsolete, not damaged
        except Exception as error:
            self._warn_damaged(error)
            return {}  # as if obsolete: the next code that is kept replaces it

    def _warn_damaged(self, error: Exception) -> None:
        warn_once(
            "compiled code on disk cannot be read, so it is compiled anew",
            f"{self._cache_path}: {error or type(error).__name__}",
        )


class KernelCache(FunctionCache):
    """Numba's cache of one function of this package, stale once any kernel's source has changed.

    Numba chooses the folder: NUMBA_CACHE_DIR, else beside the source, else the user's; RuntimeError if none can be
    written.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function)
        locator = self._impl.locator
        self._cache_file = KernelFiles(
            cache_path=locator.get_cache_path(),
            filename_base=self._impl.filename_base,
            source_stamp=hash_of_kernels(),
        )

    def save_overload(self, sig: Any, data: Any) -> None:
        """Write machine code to disk; where that fails, warn once."""
        try:
            super().save_overload(sig, data)
        except OSError as error:
            warn_not_kept(error)


@cache
def hash_of_kernels() -> str:
    """Return the SHA-256 of all kernels' source files, here and beside their solvers, with their names; read once."""
    folder, found = Path(__file__).parents[1], hashlib.sha256()
    for path in sorted([*folder.rglob("kernels/**/*.py"), *folder.rglob("*_kernels.py")]):
        content = path.read_bytes()
        found.update(f"{path.relative_to(folder).as_posix()} {len(content)}\n".encode())
        found.update(content)
    return found.hexdigest()
