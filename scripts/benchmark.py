#!/usr/bin/env python
"""Benchmarks of crfqn, side by side with other libraries on the same data in one run.

    pip install '.[benchmark]'
    python scripts/benchmark.py ocr

A subcommand a problem; each prints tables (Markdown), and with --output writes them into a folder, with all
numbers as JSON. What a problem measures is in `benchmarks/<problem>.py`.
"""

from pathlib import Path
from typing import Annotated

import typer
from benchmarks.report import Report

app = typer.Typer(
    help="Benchmarks of crfqn, side by side with other libraries.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
Output = Annotated[Path | None, typer.Option(help="A folder for the numbers (JSON) and tables (Markdown).")]
Threads = Annotated[int | None, typer.Option(min=1, help="Threads of crfqn; default: all cores.")]


@app.callback()
def options() -> None:
    """Keeps the subcommands' names, even while there is only one of them."""


@app.command()
def ocr(
    l1: Annotated[list[float] | None, typer.Option(help="Penalty; may be given several times.")] = None,
    threads: Threads = None,
    repeats: Annotated[int, typer.Option(min=1, help="Runs of crfqn; the median is reported.")] = 3,
    crfsuite_iterations: Annotated[
        int, typer.Option(min=0, help="Iterations of CRFsuite, for its seconds an iteration; 0: none.")
    ] = 10,
    full: Annotated[
        bool, typer.Option("--full", help="CRFsuite to 1e-4 of the optimum: half an hour and more.")
    ] = False,
    output: Output = None,
) -> None:
    """Handwritten words (26 labels, 8257 features): crfqn against CRFsuite."""
    from benchmarks import ocr

    report = ocr.measure(
        l1 or [100.0],
        n_threads=threads,
        repeats=repeats,
        crfsuite_iterations=None if full else crfsuite_iterations,
    )
    finish(report, output)


def finish(report: Report, output: Path | None) -> None:
    """Print the tables, and keep them if a folder is given."""
    print(report.markdown())
    if output is not None:
        for path in report.write(output):
            print(f"written: {path}")


if __name__ == "__main__":
    app()
