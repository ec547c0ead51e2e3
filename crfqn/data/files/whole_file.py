"""Writing of files as a whole or not at all: beside their target, then renamed.

A crash leaves the old file or the new one, never a half.
"""

import errno
import os
import secrets
import stat
from collections.abc import Iterable
from contextlib import suppress

from crfqn.errors import DataError, ModelFileError

StrPath = str | os.PathLike[str]


class _Unwritable(Exception):
    """Error with the reason why a file cannot be written."""


def check_writable(path: StrPath) -> None:
    """Raise ModelFileError unless a model could be written to `path` now; called before a long training."""
    try:
        target = _target(path)
        probe = _temporary_name(target)
        try:
            os.close(os.open(probe, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
            os.unlink(probe)
        except OSError as error:
            raise _cannot_write(path, error) from error
    except _Unwritable as error:
        raise ModelFileError(f"cannot write {os.fspath(path)}: {error}") from error.__cause__


def replace_file(path: StrPath, content: bytes | Iterable[bytes]) -> None:
    """Write a file, also from pieces, in one atomic step; ModelFileError where that fails, and nothing has changed."""
    try:
        _replace(path, content)
    except _Unwritable as error:
        raise ModelFileError(f"cannot write {os.fspath(path)}: {error}") from error.__cause__


def replace_data_file(path: StrPath, content: bytes) -> None:
    """Write a file of data in one atomic step; DataError where that fails, and nothing has changed then."""
    try:
        _replace(path, content)
    except _Unwritable as error:
        raise DataError(f"cannot write {os.fspath(path)}: {error}") from error.__cause__


def _replace(path: StrPath, content: bytes | Iterable[bytes]) -> None:
    target = _target(path)
    temporary = _temporary_name(target)
    try:
        # os.open rather than tempfile: the finished file gets the user's usual permissions
        descriptor = os.open(
            temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o666
        )
        try:
            with os.fdopen(descriptor, "wb") as stream:
                stream.writelines([content] if isinstance(content, bytes) else content)
                stream.flush()
                os.fsync(stream.fileno())
            os.replace(temporary, target)
        except BaseException:
            with suppress(OSError):
                os.unlink(temporary)
            raise
        _sync_folder(os.path.dirname(target))
    except OSError as error:
        raise _cannot_write(path, error) from error


def _target(path: StrPath) -> str:
    """Return the file that a link points to, so that replacing keeps the link; refuses folders and devices."""
    target = os.path.realpath(os.fspath(path))
    try:
        mode = os.stat(target).st_mode
    except FileNotFoundError:
        return target
    except OSError as error:
        raise _cannot_write(path, error) from error
    if not stat.S_ISREG(mode):
        raise _Unwritable(f"it is {'a folder' if stat.S_ISDIR(mode) else 'not a regular file'}")
    return target


def _temporary_name(target: str) -> str:
    folder, name = os.path.split(target)
    return os.path.join(folder, f".{name[:100]}.{secrets.token_hex(6)}.part")


def _cannot_write(path: StrPath, error: OSError) -> _Unwritable:
    reason = error.strerror or str(error)
    if error.errno in (errno.ENOENT, errno.ENOTDIR):
        folder = os.path.dirname(os.path.realpath(os.fspath(path)))
        reason = f"the folder {folder} {'takes no new files' if os.path.isdir(folder) else 'does not exist'}"
    return _Unwritable(reason)


def _sync_folder(folder: str) -> None:
    """Make the rename itself survive a power cut, where the system lets a folder be opened."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
