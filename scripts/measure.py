#!/usr/bin/env python
"""Measurements whose figures stand in the manual: a command for each file in `measurements/`.

    python scripts/measure.py --help
    python scripts/measure.py tolerances --items 500 --data companies

A command imports no other measurement, so that none adds to the memory that it measures.
"""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import typer
from typer.core import TyperGroup

from crfqn.errors import CrfqnError


class Measurements(TyperGroup):
    """The files in `measurements/` as commands; the function `main` of each is the command."""

    def list_commands(self, ctx: Any) -> list[str]:
        return sorted(path.stem for path in (Path(__file__).parent / "measurements").glob("[a-z]*.py"))

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in self.list_commands(ctx):
            return None
        app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
        app.command(cmd_name)(import_module(f"measurements.{cmd_name}").main)
        return typer.main.get_command(app)


app = typer.Typer(
    cls=Measurements, no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False
)


@app.callback()
def measure() -> None:
    """Measurements whose figures stand in the manual."""


if __name__ == "__main__":
    try:
        app()
    except CrfqnError as error:
        sys.exit(f"error: {error}")
