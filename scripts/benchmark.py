#!/usr/bin/env python
"""Benchmarks of crfqn, side by side with other libraries on the same data in one run.

    pip install '.[benchmark]'
    python scripts/benchmark.py ocr
    python scripts/benchmark.py flat --problem newsgroups
    python scripts/benchmark.py text --data company
    python scripts/benchmark.py all --output results         # every comparison with its defaults: hours
    python scripts/benchmark.py page results                 # one page over all that the folder has

A subcommand a comparison (`--help` lists them); each prints tables (Markdown), and with --output writes them into a
folder, and as JSON lines the cells, the promises and all numbers, each with commit, processor, threads, versions and
fingerprints of the data. What is measured and with which options is in `benchmarks/`.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Annotated

import typer
from benchmarks import (
    chains,
    flat,
    heuristics,
    hinge,
    hybrid,
    rows,
    service,
    spans,
    swap,
    tagging,
    taxonomy,
    text,
)
from harness.measuring import say
from harness.options import some_of
from harness.report import commit, read_reports

from crfqn.errors import CrfqnError

FINISHED = "finished.json"  # of a folder: commit -> the comparisons that it has of it
app = typer.Typer(
    help="Benchmarks of crfqn, side by side with other libraries.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
COMPARISONS = {
    measure.__name__.replace("_", "-"): measure
    for measure in (
        chains.ocr, chains.conll2000, flat.flat, rows.rows, taxonomy.taxonomy, hinge.max_margin, hinge.hinge,
        spans.spans, tagging.tagging, service.service, text.text, swap.swap, hybrid.hybrid, heuristics.heuristics,
    )
}  # fmt: skip
for name, measure in COMPARISONS.items():
    app.command(name)(measure)


@app.command("all")
def run_all(
    output: Annotated[Path, typer.Option(help="The folder of the results.")],
    only: Annotated[list[str] | None, some_of([*COMPARISONS])] = None,
) -> None:
    """Every comparison with its defaults, a process each; what the folder has of this commit is left out."""
    output.mkdir(parents=True, exist_ok=True)
    file, version, failed = output / FINISHED, commit(), []
    finished = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    for name in only or COMPARISONS:
        if name in finished.get(version, []):
            say(f"{name}: {output} has it")
        elif subprocess.run([sys.executable, __file__, name, "--output", str(output)]).returncode:
            failed.append(name)
        else:
            finished.setdefault(version, []).append(name)
            file.write_text(json.dumps(finished, indent=2) + "\n", encoding="utf-8")
    if failed:
        sys.exit(f"error: not measured: {', '.join(failed)}")


@app.command()
def page(folder: Annotated[Path, typer.Argument(help="That `all` or --output has written into.")]) -> None:
    """Print one page over all results of a folder."""
    print("\n".join(report.markdown() for report in read_reports(folder)))


if __name__ == "__main__":
    try:
        app()
    except CrfqnError as error:
        sys.exit(f"error: {error}")
