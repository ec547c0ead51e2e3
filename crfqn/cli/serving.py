"""`crfqn serve`: a model file as a service over HTTP."""

import os
from importlib.util import find_spec
from pathlib import Path

from crfqn.cli.output import say
from crfqn.errors import InputError


def serve(path: Path, host: str, port: int, n_workers: int, max_bytes: int, timeout: float) -> None:
    """Serve until a signal ends it."""
    missing = [name for name in ("starlette", "uvicorn") if find_spec(name) is None]
    if missing:
        raise InputError(f"a service needs {' and '.join(missing)}: pip install 'crfqn[serve]'")
    if not hasattr(os, "fork"):
        raise InputError("a service needs a system with fork, such as Linux or macOS")
    from crfqn.service.application import RequestLimits
    from crfqn.service.workers import Processes, listen

    with listen(host, port) as listener:
        workers = Processes(path, listener, n_workers, RequestLimits(max_bytes, timeout), say)
        shown = f"[{host}]" if ":" in host else host
        say(
            f"Serving {path} at http://{shown}:{listener.getsockname()[1]}; Ctrl-C ends it, SIGHUP opens the file anew."
        )
        workers.run()
