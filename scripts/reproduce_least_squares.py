#!/usr/bin/env python
"""The tables and figures of Agarwal et al., Least squares revisited (ICML 2014), measured again.

    pip install '.[plot,benchmark]'
    python scripts/reproduce_least_squares.py --quick              # all of it on built-in and made-up data
    python scripts/reproduce_least_squares.py --table 1            # MNIST: `crfqn data get mnist` first
    python scripts/reproduce_least_squares.py --figure 2 --dims 1000 --dims 2000

Writes PNG and CSV files, and a page over all that is in the folder. How: `least_squares_study/`.
"""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from studies.command import explaining

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
FIGURES, TABLES = ("1", "2", "3", "4"), ("1", "2")
FigureName = StrEnum("FigureName", {name: name for name in FIGURES})  # type: ignore[misc]
TableName = StrEnum("TableName", {name: name for name in TABLES})  # type: ignore[misc]
DIMS, QUICK_DIMS = (4000,), (200,)


@app.command()
def reproduce(
    figure: Annotated[
        list[FigureName] | None,
        typer.Option(help="May be given several times; 3 needs CIFAR-10's files (`crfqn data get cifar10`)."),
    ] = None,
    table: Annotated[list[TableName] | None, typer.Option(help="May be given several times.")] = None,
    dims: Annotated[
        list[int] | None,
        typer.Option(min=1, help="Random features of table 1 and figure 2; several times; default: 4000."),
    ] = None,
    stages: Annotated[int, typer.Option(min=1, help="Of figure 1.")] = 30,
    quick: Annotated[bool, typer.Option("--quick", help="Small built-in and made-up data.")] = False,
    output: Annotated[Path, typer.Option(help="The folder to write into.")] = Path("least-squares-study"),
) -> None:
    """Measure the paper's tables and figures again; without a choice all of them."""
    from least_squares_study.publishing import Publisher, Settings
    from threadpoolctl import threadpool_limits

    names = [f"table_{each}" for each in table or ()] + [f"figure_{each}" for each in figure or ()]
    if not names:
        names = [*(f"table_{each}" for each in TABLES), *(f"figure_{each}" for each in FIGURES)]
        if not quick:
            names.remove("figure_3")  # asked for by those who have the files
    with explaining(), threadpool_limits(1):
        publisher = Publisher(output, Settings(quick, tuple(dims or (QUICK_DIMS if quick else DIMS)), stages))
        for name in names:
            getattr(publisher, name)()


if __name__ == "__main__":
    app()
