#!/usr/bin/env python
"""What the default strengths are worth: scores against them on many sets, and the rules that could choose them.

    python scripts/defaults.py --quick                           # two small built-in sets, in seconds
    python scripts/defaults.py --data digits --data dutch        # some; their files below CRFQN_DATA
    python scripts/defaults.py --strength group_l1 --data yeast  # rows of weights; l2: pure L2
    python scripts/defaults.py                                   # all, some 40 minutes on one core

Writes a JSON file a set, which later calls use again, and a page of tables over all that is in the folder. How:
`defaults_study/`.
"""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from defaults_study.sources import MULTILABEL, QUICK, SOURCES, VARIED
from studies.command import explaining

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
DataName = StrEnum("DataName", {name: name for name in (*SOURCES, *MULTILABEL, *QUICK)})  # type: ignore[misc]
Strength = StrEnum("Strength", {name: name for name in VARIED})  # type: ignore[misc]
L1 = Strength("l1")  # type: ignore[call-arg]


@app.command()
def study(
    data: Annotated[
        list[DataName] | None,
        typer.Option(help="May be given several times; default: all, with --quick the built-in ones."),
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Small built-in sets.")] = False,
    strength: Annotated[
        Strength,  # type: ignore[valid-type]
        typer.Option(
            help="The one that varies: group_l1 over rows of weights, l2 alone; both for flat sets."
        ),
    ] = L1,
    l2_share: Annotated[float, typer.Option("--l2", min=0, help="l2 as a share of l1.")] = 0.0,
    seconds: Annotated[float, typer.Option(min=1, help="Of processor time a set, for its curve.")] = 200.0,
    output: Annotated[Path, typer.Option(help="The folder to write into.")] = Path("defaults-study"),
) -> None:
    """Measure the sets that the folder does not have yet, and write the page."""
    from benchmarks.alone import say
    from defaults_study.publishing import Publisher

    from crfqn.errors import InputError

    with explaining():
        names = [str(each) for each in data or ()] or [*(QUICK if quick else SOURCES)]
        publisher = Publisher(output, seconds, str(strength), l2_share)
        for name in names:
            try:
                publisher.measure(name)
            except InputError as error:  # a set without this strength
                if data:
                    raise
                say(f"{name}: left out; {error}")
        publisher.publish()


if __name__ == "__main__":
    app()
