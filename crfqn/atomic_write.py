"""Atomic writing of files: writes a temporary file in the target's folder, then renames it.

A crash leaves the old file or the new one, never a part of a file. The next process that writes the file removes the
temporary files of killed processes, `.NAME.<12 hex digits>.part`. A writer locks its temporary file until it is
renamed, so files without a lock belong to ended processes, on this machine or another one.
"""

import errno
import os
import re
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import BinaryIO

try:
    import fcntl
except ImportError:  # Windows, where temporary files of killed processes stay
    fcntl = None  # type: ignore[assignment]

from crfqn.errors import CrfqnError, DataError, ModelFileError

StrPath = str | os.PathLike[str]


def check_writable(path: StrPath) -> None:
    """Raise ModelFileError unless a model can be written to `path`; called before a long training. Remove the temporary
    files of killed processes."""
    with _failing_as(ModelFileError, path):
        _remove_dead_parts(_target(path))
        with _new_part(_target(path)):
            pass


def replace_file(path: StrPath, content: bytes | Iterable[bytes]) -> None:
    """Write a file atomically, from bytes or pieces; if that fails, raise ModelFileError and change nothing."""
    with _failing_as(ModelFileError, path):
        _replace(_target(path), content)


def replace_data_file(path: StrPath, content: bytes) -> None:
    """Write a data file atomically; if that fails, raise DataError and change nothing."""
    with _failing_as(DataError, path):
        _replace(_target(path), content)


def _replace(target: str, content: bytes | Iterable[bytes]) -> None:
    _remove_dead_parts(target)
    with _new_part(target) as stream:
        stream.writelines([content] if isinstance(content, bytes) else content)
        stream.flush()
        os.fsync(stream.fileno())
        if fcntl is None:  # Windows cannot rename an open file
            stream.close()
        os.replace(stream.name, target)
    _sync_folder(os.path.dirname(target))


@contextmanager
def _failing_as(kind: type[CrfqnError], path: StrPath) -> Iterator[None]:
    """Raise errors of the system as `kind`, with the path and the reason."""
    try:
        yield
    except OSError as error:
        raise kind(f"cannot write {os.fspath(path)}: {_reason(path, error)}") from error


def _target(path: StrPath) -> str:
    """Return the file that a link points to, so that the link stays; OSError for folders and devices."""
    target = os.path.realpath(os.fspath(path))
    try:
        mode = os.stat(target).st_mode
    except FileNotFoundError:
        return target
    if not stat.S_ISREG(mode):
        raise OSError(f"it is {'a folder' if stat.S_ISDIR(mode) else 'not a regular file'}")
    return target


@contextmanager
def _new_part(target: str) -> Iterator[BinaryIO]:
    """Yield a new file in the folder of `target`, locked while open; remove it at the end unless it was renamed."""
    stream = _open_part(target)
    while not os.path.exists(stream.name):  # another process removed it before it was locked
        stream.close()
        stream = _open_part(target)
    try:
        with stream:
            yield stream
    finally:
        with suppress(OSError):
            os.unlink(stream.name)


def _open_part(target: str) -> BinaryIO:
    part = _part_prefix(target) + os.urandom(6).hex() + ".part"
    stream = open(part, "xb")  # noqa: SIM115 - closed by the caller; permissions are the usual ones
    if fcntl is not None:
        with suppress(OSError):  # without locks, temporary files of killed processes stay
            fcntl.flock(stream, fcntl.LOCK_EX)
    return stream


def _remove_dead_parts(target: str) -> None:
    """Remove the temporary files of `target` that have no lock, those of killed processes."""
    folder, prefix = os.path.split(_part_prefix(target))
    is_part = re.compile(re.escape(prefix) + r"[0-9a-f]{12}\.part").fullmatch
    left_behind: list[str] = []
    if fcntl is not None:
        with suppress(OSError):  # the folder is writable but not readable
            left_behind = [os.path.join(folder, name) for name in os.listdir(folder) if is_part(name)]
    for part in left_behind:
        with suppress(OSError), open(part, "r+b") as stream:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.unlink(part)


def _part_prefix(target: str) -> str:
    folder, name = os.path.split(target)
    return os.path.join(folder, f".{name[:100]}.")


def _reason(path: StrPath, error: OSError) -> str:
    if error.errno not in (errno.ENOENT, errno.ENOTDIR):
        return error.strerror or str(error)
    try:
        folder = os.path.dirname(os.path.realpath(os.fspath(path)))
    except FileNotFoundError:
        return "the current folder does not exist any more"
    return f"the folder {folder} {'takes no new files' if os.path.isdir(folder) else 'does not exist'}"


def _sync_folder(folder: str) -> None:
    """Flush the rename to disk, if the system can open a folder."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
