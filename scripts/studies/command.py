"""The command lines of studies: how a study ends that cannot go on."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

import typer

BAD_INPUT, NO_DATA, INTERRUPTED = 2, 3, 130


@contextmanager
def explaining() -> Iterator[None]:
    """Say why in a line instead of a trace-back, and leave with the code that belongs to it."""
    from crfqn.errors import DataError, InputError

    try:
        yield
    except (InputError, DataError) as error:
        fail(str(error), NO_DATA if isinstance(error, DataError) else BAD_INPUT)
    except KeyboardInterrupt:
        fail("interrupted: what was finished before is in the folder", INTERRUPTED)


def fail(message: str, code: int) -> None:
    """Say why, and leave."""
    print(message, file=sys.stderr)
    raise typer.Exit(code)
