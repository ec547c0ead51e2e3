#!/usr/bin/env python
"""What the default strengths are worth: scores against l1 on many sets, and the rules that could choose it.

    python scripts/defaults.py --quick                           # two small built-in sets, in seconds
    python scripts/defaults.py --data digits --data dutch        # some; their files below CRFQN_DATA
    python scripts/defaults.py                                   # all, some 40 minutes on one core

Writes a JSON file a set, which later calls use again, and a page of tables over all that is in the folder. How:
`defaults_study/`.
"""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from defaults_study.sources import QUICK, SOURCES
from studies.command import explaining

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
DataName = StrEnum("DataName", {name: name for name in (*SOURCES, *QUICK)})  # type: ignore[misc]


@app.command()
def study(
    data: Annotated[
        list[DataName] | None,
        typer.Option(help="May be given several times; default: all, with --quick the built-in ones."),
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Small built-in sets.")] = False,
    l2_share: Annotated[float, typer.Option("--l2", min=0, help="l2 as a share of l1.")] = 0.0,
    seconds: Annotated[float, typer.Option(min=1, help="Of processor time a set, for its curve.")] = 200.0,
    output: Annotated[Path, typer.Option(help="The folder to write into.")] = Path("defaults-study"),
) -> None:
    """Measure the sets that the folder does not have yet, and write the page."""
    from defaults_study.publishing import Publisher

    with explaining():
        names = [str(each) for each in data or ()] or [*(QUICK if quick else SOURCES)]
        publisher = Publisher(output, seconds, l2_share)
        for name in names:
            publisher.measure(name)
        publisher.publish()


if __name__ == "__main__":
    app()
