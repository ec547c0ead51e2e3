#!/usr/bin/env python
"""The figures and tables of Zhong, Yen, Dhillon and Ravikumar (NIPS 2014), measured again.

    pip install '.[plot,benchmark]'
    python scripts/reproduce_prox_qn.py --quick              # all of it on small parts, of built-in data if need be
    python scripts/reproduce_prox_qn.py --figure 3           # one figure, on all of the data
    python scripts/reproduce_prox_qn.py --table 1
    python scripts/reproduce_prox_qn.py --superlinear        # Theorem 1

Writes PNG and CSV files, and a page over all that is in the folder. How: `prox_qn_study/`.
"""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from prox_qn_study.figures import FIGURES, TABLES
from studies.command import explaining

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
FigureName = StrEnum("FigureName", {name: name for name in FIGURES})  # type: ignore[misc]
TableName = StrEnum("TableName", {name: name for name in TABLES})  # type: ignore[misc]
OF_THE_PAPER = [name for name in FIGURES if name != "digits"]
SECONDS, QUICK_SECONDS = 300.0, 1.0


@app.command()
def reproduce(
    figure: Annotated[
        list[FigureName] | None, typer.Option(help="May be given several times; `digits` needs no data.")
    ] = None,
    table: Annotated[list[TableName] | None, typer.Option(help="May be given several times.")] = None,
    superlinear: Annotated[bool, typer.Option("--superlinear", help="Theorem 1 on small problems.")] = False,
    quick: Annotated[
        bool, typer.Option("--quick", help="Small parts of the data or of built-in data, short runs.")
    ] = False,
    max_seconds: Annotated[
        float | None,
        typer.Option(min=0.1, help=f"Of a single run; default: {SECONDS:g}, with --quick {QUICK_SECONDS:g}."),
    ] = None,
    threads: Annotated[int | None, typer.Option(min=1, help="Default: all cores.")] = None,
    output: Annotated[Path, typer.Option(help="The folder to write into.")] = Path("prox-qn-study"),
) -> None:
    """Measure the paper's figures and tables again; without a choice all of them."""
    from prox_qn_study.publishing import Publisher

    names = [str(each) for each in figure or ()], [str(each) for each in table or ()]
    if not (figure or table or superlinear):
        names, superlinear = (OF_THE_PAPER, list(TABLES)), True
    with explaining():
        publisher = Publisher(output, quick, max_seconds or (QUICK_SECONDS if quick else SECONDS), threads)
        for name in names[0]:
            publisher.figure(name)
        for name in names[1]:
            publisher.table(name)
        if superlinear:
            publisher.superlinear()


if __name__ == "__main__":
    app()
