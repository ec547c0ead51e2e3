"""Run the command line, in a process of its own or in this one."""

import io
import os
import subprocess
import sys
from functools import cache

import pytest
import typer.main

from crfqn.cli import main

built_command = cache(
    typer.main.get_command
)  # the parser of all commands, which takes longer than most of them


def checked(run, code, error):
    """Return a finished command that must have ended with this code, None for any; `error` is a part of the message of
    one that refuses its input."""
    if error is not None:
        assert (run.returncode, error in run.stderr) == (2, True), run.stderr
    assert code in (None, run.returncode), run.stderr
    return run


def assert_mistake(run, code, *words):
    """Assert that a command has refused its input with a message of these words, and nothing else."""
    checked(run, code, None)
    assert run.stdout == ""
    for word in words:
        assert word in run.stderr
    assert "Traceback" not in run.stderr


def crfqn(*arguments, cwd=None, input=None, code=None, error=None, **environment):
    """Run the command line; `environment` values of None remove a variable; `code` and `error` as of `checked`."""
    variables = {
        **os.environ,
        "CRFQN_CACHE": str(cwd or "."),
        "NO_COLOR": "1",
        "COLUMNS": "120",
        **environment,
    }
    run = subprocess.run(
        [sys.executable, "-W", "error", "-m", "crfqn", *map(str, arguments)],
        cwd=cwd,
        input=input,
        env={name: value for name, value in variables.items() if value is not None},
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=180,
    )
    return checked(run, code, error)


def run_here(monkeypatch, folder, *arguments, input="", code=None, error=None, **environment):
    """The same in this process, which saves the seconds of the start-up."""
    output, messages = io.StringIO(), io.StringIO()
    with monkeypatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("COLUMNS", "120")
        patch.setenv("CRFQN_CACHE", str(folder))
        for name, value in environment.items():
            patch.delenv(name, raising=False) if value is None else patch.setenv(name, value)
        patch.setattr(sys, "argv", ["crfqn", *map(str, arguments)])
        stdin = None if input is None else io.TextIOWrapper(io.BytesIO(input.encode()))
        patch.setattr(sys, "stdin", stdin)
        patch.setattr(sys, "stdout", output)
        patch.setattr(sys, "stderr", messages)
        patch.setattr(typer.main, "get_command", built_command)
        with pytest.raises(SystemExit) as info:
            main()
    run = subprocess.CompletedProcess(arguments, info.value.code, output.getvalue(), messages.getvalue())
    return checked(run, code, error)
