#!/usr/bin/env python
"""Benchmarks of crfqn, side by side with other libraries on the same data in one run.

    pip install '.[benchmark]'
    python scripts/benchmark.py ocr
    python scripts/benchmark.py conll2000
    python scripts/benchmark.py flat --problem newsgroups
    python scripts/benchmark.py rows --loss squared-hinge
    python scripts/benchmark.py taxonomy --problem lshtc1 --l1 1
    python scripts/benchmark.py inference
    python scripts/benchmark.py max-margin
    python scripts/benchmark.py spans
    python scripts/benchmark.py tagging
    python scripts/benchmark.py service
    python scripts/benchmark.py text --data company
    python scripts/benchmark.py swap
    python scripts/benchmark.py hinge --problem newsgroups --problem letters
    python scripts/benchmark.py hybrid --problem banking77
    python scripts/benchmark.py heuristics

A subcommand a problem; each prints tables (Markdown), and with --output writes them into a folder, with all
numbers as JSON. What a problem measures and its options are in `benchmarks/`.
"""

import sys

import typer
from benchmarks import (
    chains,
    flat,
    heuristics,
    hinge,
    hybrid,
    inference,
    rows,
    service,
    spans,
    swap,
    tagging,
    taxonomy,
    text,
)

from crfqn.errors import CrfqnError

app = typer.Typer(
    help="Benchmarks of crfqn, side by side with other libraries.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
for measure in (
    chains.ocr, chains.conll2000, flat.flat, rows.rows, taxonomy.taxonomy, inference.inference, hinge.max_margin,
    hinge.hinge, spans.spans, tagging.tagging, service.service, text.text, swap.swap, hybrid.hybrid,
    heuristics.heuristics,
):  # fmt: skip
    app.command()(measure)


if __name__ == "__main__":
    try:
        app()
    except CrfqnError as error:
        sys.exit(f"error: {error}")
