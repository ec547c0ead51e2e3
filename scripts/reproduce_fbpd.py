#!/usr/bin/env python
"""The table and the figures of Chierchia, Pustelnik, Pesquet and Pesquet-Popescu (2015), measured again.

    pip install '.[plot,benchmark]'
    python scripts/reproduce_fbpd.py --quick                            # all of it on scikit-learn's digits
    python scripts/reproduce_fbpd.py --table 1 --leukemia FOLDER        # 38 and 34 patients, blocks of 5 genes
    python scripts/reproduce_fbpd.py --figure 1 --figure 3 --subsets 5  # MNIST; --scattering needs '.[scattering]'

Writes PNG and CSV files, and a page over all that is in the folder. How: `fbpd_study/`.
"""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from studies.command import explaining

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
FIGURES, TABLES = ("1", "2", "3", "4"), ("1",)
FigureName = StrEnum("FigureName", {name: name for name in FIGURES})  # type: ignore[misc]
TableName = StrEnum("TableName", {name: name for name in TABLES})  # type: ignore[misc]


@app.command()
def reproduce(
    figure: Annotated[list[FigureName] | None, typer.Option(help="May be given several times.")] = None,
    table: Annotated[list[TableName] | None, typer.Option(help="May be given several times.")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Built-in digits in the place of all data.")] = False,
    subsets: Annotated[
        int | None, typer.Option(min=1, help="Training sets of a size; default: 10, with --quick 1.")
    ] = None,
    alpha: Annotated[
        list[float] | None, typer.Option(min=0, help="In the place of the grid, .1 to 30; several times.")
    ] = None,
    leukemia: Annotated[
        Path | None, typer.Option(help="The folder of data_set_ALL_AML_train.tsv and ..._independent.tsv.")
    ] = None,
    scattering: Annotated[
        bool, typer.Option("--scattering", help="Transform MNIST as the paper does, by kymatio.")
    ] = False,
    output: Annotated[Path, typer.Option(help="The folder to write into.")] = Path("fbpd-study"),
) -> None:
    """Measure the paper's table and figures again; without a choice all of them."""
    from fbpd_study.publishing import Publisher

    figures, tables = [str(each) for each in figure or ()], [str(each) for each in table or ()]
    if not (figures or tables):
        figures, tables = [*FIGURES], [*TABLES]
    with explaining():
        publisher = Publisher(
            output, quick, subsets or (1 if quick else 10), leukemia, scattering, alpha or ()
        )
        for name in tables:
            getattr(publisher, f"table_{name}")()
        for name in figures:
            getattr(publisher, f"figure_{name}")()


if __name__ == "__main__":
    app()
