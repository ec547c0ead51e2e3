#!/usr/bin/env python
"""The figures and the table of Blondel, Seki and Uehara (Machine Learning 93, 2013), measured again.

    pip install '.[plot,benchmark]'
    python scripts/reproduce_bcd.py --quick                  # all of it on 500 made-up texts: 15 s once compiled
    python scripts/reproduce_bcd.py --figure 2 --data mnist  # one figure, on all of one data set
    python scripts/reproduce_bcd.py --table 2

Writes PNG and CSV files, and a page over all that is in the folder. How: `bcd_study/`.
"""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from studies.command import explaining

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
FIGURES, TABLES = ("2", "3", "4", "5"), ("2",)
NAMES = ("news20", "news20-counts", "mnist", "sector", "rcv1", "amazon7")
FigureName = StrEnum("FigureName", {name: name for name in FIGURES})  # type: ignore[misc]
TableName = StrEnum("TableName", {name: name for name in TABLES})  # type: ignore[misc]
DataName = StrEnum("DataName", {name: name for name in NAMES})  # type: ignore[misc]
SECONDS, QUICK_SECONDS = 300.0, 0.2


@app.command()
def reproduce(
    figure: Annotated[list[FigureName] | None, typer.Option(help="May be given several times.")] = None,
    table: Annotated[list[TableName] | None, typer.Option(help="May be given several times.")] = None,
    data: Annotated[
        list[DataName] | None,
        typer.Option(
            help="May be given several times; default: those of the paper that are here, texts of the same shape for "
            "Sector and RCV1 where they are not; with --quick Sector."
        ),
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Small parts of the data, short runs.")] = False,
    max_seconds: Annotated[
        float | None,
        typer.Option(min=0.1, help=f"Of a single run; default: {SECONDS:g}, with --quick {QUICK_SECONDS:g}."),
    ] = None,
    splits: Annotated[
        int | None, typer.Option(min=1, help="Of figure 5 and table 2; default: 3, with --quick 1.")
    ] = None,
    threads: Annotated[int, typer.Option(min=1, help="The paper's solvers have one.")] = 1,
    output: Annotated[Path, typer.Option(help="The folder to write into.")] = Path("bcd-study"),
) -> None:
    """Measure the paper's figures and table 2 again; without a choice all of them."""
    from bcd_study.publishing import Publisher

    names = [str(each) for each in figure or ()], [str(each) for each in table or ()]
    if not (figure or table):
        names = [*FIGURES], [*TABLES]
    with explaining():
        publisher = Publisher(
            output,
            [str(each) for each in data or ()],
            quick,
            max_seconds or (QUICK_SECONDS if quick else SECONDS),
            splits or (1 if quick else 3),
            threads,
        )
        for name in names[0]:
            publisher.figure(name)
        for name in names[1]:
            publisher.table(name)


if __name__ == "__main__":
    app()
