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
    python scripts/benchmark.py text --data company
    python scripts/benchmark.py hinge --problem newsgroups --problem letters
    python scripts/benchmark.py heuristics

A subcommand a problem; each prints tables (Markdown), and with --output writes them into a folder, with all
numbers as JSON. What a problem measures is in `benchmarks/`.
"""

import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from harness.pages import SEVERAL
from harness.report import finish

app = typer.Typer(
    help="Benchmarks of crfqn, side by side with other libraries.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
Output = Annotated[Path | None, typer.Option(help="A folder for the numbers (JSON) and tables (Markdown).")]
Threads = Annotated[int | None, typer.Option(min=1, help="Threads of crfqn; default: all cores.")]
Penalties = Annotated[list[float] | None, typer.Option(help="Penalty; may be given several times.")]
Repeats = Annotated[int, typer.Option(min=1, help="Runs of crfqn; the median is reported.")]
Limit = Annotated[
    float, typer.Option(min=0, help="Seconds for a single fit of another library; 0: only crfqn runs.")
]
OwnLimit = Annotated[float, typer.Option(min=1, help="Seconds for a single fit of crfqn.")]
ALL, BOTH = (typer.Option(help=f"May be given several times; default: {which}.") for which in ("all", "both"))

# What the subcommands measure.
ChunkPenalty = StrEnum("ChunkPenalty", ["l1", "l2"])
FlatProblem = StrEnum("FlatProblem", ["newsgroups", "mnist", "rcv1-like"])
RowProblem = StrEnum("RowProblem", ["newsgroups", "mnist"])
RowLoss = StrEnum("RowLoss", ["squared-hinge", "logistic"])
TaxonomyProblem = StrEnum("TaxonomyProblem", ["lshtc1", "lshtc1-task1", "imageclef"])
ItemLengths = StrEnum("ItemLengths", ["sentences", "unequal", "single", "one-word"])
SENTENCES = ItemLengths("sentences")
HingeProblem = StrEnum("HingeProblem", ["newsgroups", "banking77", "letters"])
TextData = StrEnum(
    "TextData",
    ["company", "person", "conll2000-500", "conll2000-2000", "dutch-upos", "btc", "conll2000", "dutch-xpos"],
)
TextPenalty = StrEnum("TextPenalty", ["c1=1", "c1=c2=0.1", "c2=0.1", "c2=1"])
TextPart = StrEnum("TextPart", ["training", "certificate", "estimators", "online", "memory", "flat"])
FlatText = StrEnum("FlatText", ["digits", "banking77", "newsgroups", "mnist"])


@app.command()
def ocr(
    l1: Penalties = None,
    threads: Threads = None,
    repeats: Repeats = 3,
    crfsuite_iterations: Annotated[
        int, typer.Option(min=0, help="Iterations of CRFsuite, for its seconds an iteration; 0: none.")
    ] = 10,
    full: Annotated[
        bool, typer.Option("--full", help="CRFsuite to 1e-4 of the optimum: half an hour and more.")
    ] = False,
    output: Output = None,
) -> None:
    """Handwritten words (26 labels, 8257 features): crfqn against CRFsuite."""
    from benchmarks import chains

    iterations = None if full else crfsuite_iterations
    report = chains.measure_ocr(
        l1 or [100.0], n_threads=threads, repeats=repeats, crfsuite_iterations=iterations
    )
    finish(report, output)


@app.command()
def conll2000(
    penalty: Annotated[list[ChunkPenalty] | None, BOTH] = None,
    threads: Threads = 2,
    repeats: Repeats = 3,
    limit: OwnLimit = 120.0,
    crfsuite_iterations: Annotated[
        int | None,
        typer.Option(min=0, help="Iterations of CRFsuite; 0: none; default: all it takes, six minutes."),
    ] = None,
    output: Output = None,
) -> None:
    """Chunking (22 labels, 335,674 features), L1 and L2: crfqn against CRFsuite."""
    from benchmarks import chains

    report = chains.measure_conll2000(
        penalty or list(ChunkPenalty),
        n_threads=threads,
        repeats=repeats,
        limit=limit,
        crfsuite_iterations=crfsuite_iterations,
    )
    finish(report, output)


@app.command()
def flat(
    problem: Annotated[list[FlatProblem] | None, ALL] = None,
    threads: Threads = 2,
    repeats: Annotated[int, typer.Option(min=1, help="Runs of crfqn and saga; medians are reported.")] = 3,
    limit: Limit = 120.0,
    output: Output = None,
) -> None:
    """Multinomial logistic regression with L1: crfqn against scikit-learn's saga; liblinear and skglm beside."""
    from benchmarks import flat

    names = problem or list(FlatProblem)
    finish(flat.measure(names, n_threads=threads, repeats=repeats, limit=limit), output)


@app.command()
def rows(
    problem: Annotated[list[RowProblem] | None, BOTH] = None,
    loss: Annotated[list[RowLoss] | None, BOTH] = None,
    repeats: Annotated[int, typer.Option(min=1, help="Runs of crfqn on one core and on two.")] = 9,
    limit: Annotated[float, typer.Option(min=1, help="Seconds for a single fit.")] = 60.0,
    lightning: Annotated[
        Path | None,
        typer.Option(help="An interpreter (python) that has sklearn-contrib-lightning.", exists=True),
    ] = None,
    output: Output = None,
) -> None:
    """Multiclass models with L1/L2 rows: crfqn on one and two cores against lightning and cyanure."""
    from benchmarks import rows

    names, losses = problem or list(RowProblem), loss or list(RowLoss)
    finish(rows.measure(names, losses, repeats, limit, lightning), output)


@app.command()
def taxonomy(
    problem: Annotated[list[TaxonomyProblem] | None, ALL] = None,
    l1: Penalties = None,
    large: Annotated[
        bool, typer.Option("--large", help="Only the made-up problem of 5 billion weights.")
    ] = False,
    threads: Threads = 2,
    limit: Limit = 600.0,
    output: Output = None,
) -> None:
    """Taxonomies of labels: crfqn against its own flat softmax, OWL-QN and hiclass."""
    from benchmarks import taxonomy

    if large:
        return finish(taxonomy.measure_large(n_threads=threads), output)
    names = problem or list(TaxonomyProblem)
    finish(taxonomy.measure(names, l1 or [0.5, 1.0, 2.0], n_threads=threads, limit=limit), output)


@app.command()
def inference(
    states: Annotated[
        list[int] | None, typer.Option(min=1, help="May be given several times; default: 4 to 146.")
    ] = None,
    lengths: Annotated[ItemLengths, typer.Option(help="How long the items are.")] = SENTENCES,
    output: Output = None,
) -> None:
    """One inference pass over chains of few and many labels, against the bound of the machine."""
    from benchmarks import inference

    finish(inference.measure_states(states or [4, 7, 16, 26, 50, 146], lengths.value), output)


@app.command()
def max_margin(
    tol: Annotated[float, typer.Option(min=0, help="The relative duality gap to prove.")] = 1e-2,
    output: Output = None,
) -> None:
    """Handwritten words by their pixels: the structured hinge beside the likelihood, both with L2."""
    from benchmarks import hinge

    finish(hinge.measure_structured(tol), output)


@app.command()
def hinge(
    problem: Annotated[list[HingeProblem] | None, ALL] = None,
    strength: Annotated[float, typer.Option("--C", min=0, help="Strength of the loss.")] = 1.0,
    output: Output = None,
) -> None:
    """The multiclass hinge: liblinear's solver on words, scikit-learn's SVC on pixels of letters."""
    from benchmarks import hinge

    for name in problem or list(HingeProblem):
        is_kernel = name == "letters"
        finish(hinge.measure_kernel(strength) if is_kernel else hinge.measure_linear(name, strength), output)


@app.command()
def spans(output: Output = None) -> None:
    """F1 of spans in labels of CoNLL-2000's size: crfqn against seqeval."""
    from benchmarks import spans

    finish(spans.measure(), output)


@app.command()
def text(
    data: Annotated[list[TextData] | None, ALL] = None,
    penalty: Annotated[list[TextPenalty] | None, ALL] = None,
    part: Annotated[
        list[TextPart] | None,
        typer.Option(help=f"{SEVERAL[:-1]}; default: all but certificate, memory of btc alone."),
    ] = None,
    flat_data: Annotated[
        list[FlatText] | None, typer.Option(help="Of the part flat; default: all, none if --data is given.")
    ] = None,
    repeats: Annotated[int, typer.Option(min=1, help="Turns; a fit above 10 s is made once.")] = 3,
    limit: OwnLimit = 120.0,
    crfsuite_iterations: Annotated[
        int | None, typer.Option(min=1, help="Iterations of CRFsuite; default: all it takes, minutes.")
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="A made-up set: seconds, says nothing.")] = False,
    output: Output = None,
) -> None:
    """Names, tags, entities and chunks against CRFsuite, flat texts against scikit-learn, one core."""
    from benchmarks import text
    from benchmarks.text_report import report
    from harness.texts import MADE_UP

    chosen = [each for each in text.PENALTIES if penalty is None or each.name in penalty]
    selection = text.Selection(
        [MADE_UP] if quick else [*map(str, data or TextData)],
        chosen[:1] if quick else chosen,
        [*map(str, part or [each for each in TextPart if each != "certificate"])],
        [*map(str, flat_data or ([] if data or quick else FlatText))],
        1 if quick else repeats,
        limit,
        crfsuite_iterations,
    )
    finish(report(text.measure(selection)), output)


@app.command()
def heuristics(
    data: Annotated[list[str] | None, ALL] = None,
    repeats: Annotated[int, typer.Option(min=1, help="Turns; medians are reported.")] = 1,
    quick: Annotated[bool, typer.Option("--quick", help="Small built-in sets.")] = False,
    output: Output = None,
) -> None:
    """Prox-QN with each of its heuristics switched off alone: passes and seconds, relative to the default."""
    from benchmarks import heuristics

    finish(heuristics.measure(quick, repeats, data), output)


if __name__ == "__main__":
    from crfqn.errors import CrfqnError

    try:
        app()
    except CrfqnError as error:
        sys.exit(f"error: {error}")
