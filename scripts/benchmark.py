#!/usr/bin/env python
"""Benchmarks of crfqn, side by side with other libraries on the same data in one run.

    pip install '.[benchmark,plot]'
    python scripts/benchmark.py sequences --data company
    python scripts/benchmark.py flat --problem newsgroups
    python scripts/benchmark.py all --output docs/results/     # every comparison: under two hours on one core
    python scripts/benchmark.py page docs/results/             # docs/benchmarks.md, its pictures, the README's table

A subcommand a comparison (`--help` lists them); each prints a section of the page, and with --output keeps its cases as
JSON lines, each with commit, processor, threads, versions and fingerprints of the data, and goes on where it stopped.
What is measured and with which options is in `benchmarks/`.
"""

from __future__ import annotations

import inspect
import os
import subprocess
import sys
from pathlib import Path
from time import monotonic
from typing import Annotated, Any

import typer
from benchmarks import (
    chains,
    decisions,
    flat,
    heuristics,
    hinge,
    rows,
    service,
    spans,
    swap,
    tagging,
    taxonomy,
    text,
)
from harness.comparing import LONG_TURN, Comparison, Section, read_lines
from harness.drawing import draw_by_theme
from harness.measuring import say
from harness.options import Full, command, some_of
from harness.pages import explaining
from harness.report import Table

from crfqn.errors import InputError

ROOT = Path(__file__).resolve().parents[1]
ONE_CORE = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")
BEGIN, END = "<!-- benchmarks -->", "<!-- end of benchmarks -->"  # around the README's table
INTRODUCTION = f"""\
# Benchmarks

How long training takes, what it finds, and what other libraries need for the same. Every figure is made by
`scripts/benchmark.py` and stands in the JSON lines of a folder, with the commit, the processor, the threads, the
versions of the libraries and fingerprints of the data; this page is made of them. Seconds are the processor's on one
core unless a table says otherwise, peers take turns in the same run, and figures are medians of three turns; a run of
more than {LONG_TURN:g} seconds is made once. Ratios come first: seconds will be different elsewhere, ratios less so.
Studies of papers have [pages of their own](studies.md). Where the data come from: [data sets](formats.md#data-sets).

    pip install '.[benchmark,plot,serve]' cyanure tqdm
    crfqn compile    # so that no measured run does
    python scripts/benchmark.py all --output docs/results/
    python scripts/benchmark.py page docs/results/

`all` makes every comparison, in 65 to 95 minutes, and goes on where it stopped (`sequences --full`: 40 minutes more);
`page` makes this page, its pictures and the README's table.
Wapiti and CRF++ take part where `wapiti`, `crf_learn` and `crf_test` are on the path. They are built from source (the
package `wapiti` of Debian is another program):

    git clone https://github.com/Jekub/Wapiti && make -C Wapiti
    git clone https://github.com/taku910/crfpp && cd crfpp
    sed -i /winmain.h/d crf_test.cpp crf_learn.cpp    # a file that is missing there
    CXXFLAGS='-O3 -std=gnu++98' ./configure && make
"""
app = command(help="Benchmarks of crfqn, side by side with other libraries.", no_args_is_help=True)
COMPARISONS: dict[str, tuple[Comparison, Any]] = {
    comparison.name: (comparison, measure)
    for comparison, measure in (
        (decisions.SEQUENCES_BY_USERS, decisions.sequences), (decisions.CLASSES_BY_USERS, decisions.classes),
        (tagging.TAGGING, tagging.tagging), (service.SERVICE, service.service), (text.TEXT, text.text),
        (swap.SWAP, swap.swap), (flat.FLAT, flat.flat), (taxonomy.TAXONOMY, taxonomy.taxonomy),
        (chains.OCR, chains.ocr), (chains.CONLL2000, chains.conll2000), (rows.ROWS, rows.rows),
        (hinge.HINGE, hinge.hinge), (spans.SPANS, spans.spans), (hinge.MAX_MARGIN, hinge.max_margin),
        (heuristics.HEURISTICS, heuristics.heuristics),
    )
}  # fmt: skip
LABELS = {"scores": "Held-out scores against seconds", "costs": "Size and speed of the models"}  # of pictures
PANEL = (3.6, 2.9)  # inches: three stand side by side on a page
FOR_HOURS = ("heuristics",)  # which `all` measures with --full
for name, (_, measure) in COMPARISONS.items():
    app.command(name)(measure)


@app.command("all")
def run_all(
    output: Annotated[Path, typer.Option(help="The folder of the results.")],
    only: Annotated[list[str] | None, some_of([*COMPARISONS])] = None,
    full: Full = False,
) -> None:
    """Every comparison, a process each; cases that the folder has of this commit are not measured again."""
    failed = []
    for name in only or [each for each in COMPARISONS if full or each not in FOR_HOURS]:
        options = ["--full"] * (full and "full" in inspect.signature(COMPARISONS[name][1]).parameters)
        command = [sys.executable, __file__, name, "--output", str(output), *options]
        begin = monotonic()
        if subprocess.run(command, env=os.environ | ONE_CORE).returncode:
            failed.append(name)
        say(f"{name}: {(monotonic() - begin) / 60:.1f} minutes")
    if failed:
        sys.exit(f"error: not measured: {', '.join(failed)}")


@app.command()
def page(
    folder: Annotated[Path, typer.Argument(help="That `all` or --output has written into.")],
    manual: Annotated[
        Path, typer.Option(help="Where benchmarks.md and the folder of its pictures go.")
    ] = ROOT / "docs",
    readme: Annotated[Path, typer.Option(help="Whose table is replaced.")] = ROOT / "README.md",
) -> None:
    """Make the page, its pictures and the README's table of the results of a folder."""
    parts, rows, pictures = [INTRODUCTION], [], manual / "benchmarks"
    before, _, others = readme.read_text(encoding="utf-8").partition(BEGIN)
    if END not in others:
        raise InputError(f"{readme}: expected lines {BEGIN} and {END} around the table")
    for name, (comparison, _) in COMPARISONS.items():
        lines = read_lines(folder / f"{name}.jsonl")
        if lines:
            section = comparison.section([line["case"] | line["measured"] for line in lines])
            parts.append(comparison.markdown(lines, draw_all(name, section, pictures)))
            for ratio in section.ratios:
                if ratio.command:
                    rows.append([ratio.figure, ratio.what, ratio.ours, ratio.peer, f"`{ratio.command}`"])
    if len(parts) == 1:
        raise InputError(f"{folder}: expected JSON lines that `all` or --output has written")
    (manual / "benchmarks.md").write_text("\n".join(parts), encoding="utf-8")
    head = ["times as fast", "", "crfqn", "peer", "`python scripts/benchmark.py ...`"]
    table = Table("", head, rows).text()
    after = others.partition(END)[2]
    image = ""
    if (pictures / "sequences-summary.svg").exists():
        path = "docs/benchmarks/sequences-summary"
        image = (
            f'<picture><source media="(prefers-color-scheme: dark)" srcset="{path}-dark.svg">'
            f'<img src="{path}.svg" alt="Held-out scores against seconds of a fit"></picture>\n\n'
        )
    readme.write_text(f"{before}{BEGIN}\n\n{image}{table}\n\n{END}{after}", encoding="utf-8")


def draw_all(name: str, section: Section, folder: Path) -> dict[str, str]:
    """Draw the pictures of a section, light and dark; return the line of each on the page."""
    links = {}
    for kind, panels in section.panels.items():
        draw_by_theme(panels, folder / f"{name}-{kind}", bold="crfqn", columns=3, size=PANEL)
        if kind in LABELS:
            links[kind] = "\n".join(
                f"![{LABELS[kind]}](benchmarks/{name}-{kind}{suffix}.svg){{.only-{theme}}}"
                for suffix, theme in (("", "light"), ("-dark", "dark"))
            )
    return links


if __name__ == "__main__":
    with explaining():
        app()
