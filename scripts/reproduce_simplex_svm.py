#!/usr/bin/env python
"""The figures and table II of Blondel, Fujino and Ueda (ICPR 2014), measured again.

    pip install '.[plot,benchmark]'
    python scripts/reproduce_simplex_svm.py --quick              # all of it on made-up texts, without a download
    python scripts/reproduce_simplex_svm.py --table 2            # accuracy and time after 1, 3, 5 passes, 10 splits
    python scripts/reproduce_simplex_svm.py --figure 1 --data news20

Writes PNG and CSV files, and a page over all that is in the folder. How: `simplex_study/`.
"""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from studies.command import explaining

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
FIGURES, TABLES = ("1", "2", "3", "4"), ("2",)
NAMES = ("news20", "sector", "rcv1", "amazon7")
FigureName = StrEnum("FigureName", {name: name for name in FIGURES})  # type: ignore[misc]
TableName = StrEnum("TableName", {name: name for name in TABLES})  # type: ignore[misc]
DataName = StrEnum("DataName", {name: name for name in NAMES})  # type: ignore[misc]


@app.command()
def reproduce(
    figure: Annotated[list[FigureName] | None, typer.Option(help="May be given several times.")] = None,
    table: Annotated[list[TableName] | None, typer.Option(help="May be given several times.")] = None,
    data: Annotated[
        list[DataName] | None,
        typer.Option(
            help="May be given several times; default: those that are here, with --quick texts like Sector's."
        ),
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Small parts of the data, few passes.")] = False,
    passes: Annotated[
        int | None, typer.Option(min=1, help="Of figures 1 to 4; default: 30, with --quick 5.")
    ] = None,
    splits: Annotated[
        int | None, typer.Option(min=1, help="Of table 2; default: 10, with --quick 2.")
    ] = None,
    output: Annotated[Path, typer.Option(help="The folder to write into.")] = Path("simplex-study"),
) -> None:
    """Measure the paper's figures and table II again; without a choice all of them."""
    from simplex_study.publishing import Publisher

    figures, tables = [str(each) for each in figure or ()], [str(each) for each in table or ()]
    if not (figures or tables):
        figures, tables = [*FIGURES], [*TABLES]
    with explaining():
        publisher = Publisher(
            output,
            [str(each) for each in data or ()],
            quick,
            splits or (2 if quick else 10),
            passes or (5 if quick else 30),
        )
        for name in figures:
            getattr(publisher, f"figure_{name}")()
        for name in tables:
            getattr(publisher, f"table_{name}")()


if __name__ == "__main__":
    app()
