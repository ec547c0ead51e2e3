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

A subcommand a problem; each prints tables (Markdown), and with --output writes them into a folder, with all
numbers as JSON. What a problem measures is in `benchmarks/<problem>.py`.
"""

import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from benchmarks.report import finish
from benchmarks.text.command import text

app = typer.Typer(
    help="Benchmarks of crfqn, side by side with other libraries.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
Output = Annotated[Path | None, typer.Option(help="A folder for the numbers (JSON) and tables (Markdown).")]
Threads = Annotated[int | None, typer.Option(min=1, help="Threads of crfqn; default: all cores.")]

Penalties = Annotated[list[float] | None, typer.Option(help="Penalty; may be given several times.")]
Limit = Annotated[
    float, typer.Option(min=0, help="Seconds for a single fit of another library; 0: only crfqn runs.")
]


@app.callback()
def options() -> None:
    """Keeps the subcommands' names, even while there is only one of them."""


@app.command()
def ocr(
    l1: Penalties = None,
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


class ChunkPenalty(StrEnum):
    """What `conll2000` measures."""

    L1 = "l1"
    L2 = "l2"


@app.command()
def conll2000(
    penalty: Annotated[
        list[ChunkPenalty] | None, typer.Option(help="May be given several times; default: both.")
    ] = None,
    threads: Threads = 2,
    repeats: Annotated[int, typer.Option(min=1, help="Runs of crfqn; the median is reported.")] = 3,
    limit: Annotated[float, typer.Option(min=1, help="Seconds for a single fit of crfqn.")] = 120.0,
    crfsuite_iterations: Annotated[
        int | None,
        typer.Option(min=0, help="Iterations of CRFsuite; 0: none; default: all it takes, six minutes."),
    ] = None,
    output: Output = None,
) -> None:
    """Chunking (22 labels, 335,674 features), L1 and L2: crfqn against CRFsuite."""
    from benchmarks import conll2000

    report = conll2000.measure(
        list(penalty or ChunkPenalty),
        n_threads=threads,
        repeats=repeats,
        limit=limit,
        crfsuite_iterations=crfsuite_iterations,
    )
    finish(report, output)


class FlatProblem(StrEnum):
    """What `flat` measures."""

    NEWSGROUPS = "newsgroups"
    MNIST = "mnist"
    RCV1_LIKE = "rcv1-like"


@app.command()
def flat(
    problem: Annotated[
        list[FlatProblem] | None, typer.Option(help="May be given several times; default: all.")
    ] = None,
    threads: Threads = 2,
    repeats: Annotated[int, typer.Option(min=1, help="Runs of crfqn and saga; medians are reported.")] = 3,
    limit: Limit = 120.0,
    output: Output = None,
) -> None:
    """Multinomial logistic regression with L1: crfqn against scikit-learn's saga; liblinear and skglm beside."""
    from benchmarks import flat

    finish(
        flat.measure(problem or list(FlatProblem), n_threads=threads, repeats=repeats, limit=limit), output
    )


class RowProblem(StrEnum):
    """What `rows` measures."""

    NEWSGROUPS = "newsgroups"
    MNIST = "mnist"


class RowLoss(StrEnum):
    """Of the models that `rows` trains."""

    HINGE = "squared-hinge"
    LOGISTIC = "logistic"


@app.command()
def rows(
    problem: Annotated[
        list[RowProblem] | None, typer.Option(help="May be given several times; default: both.")
    ] = None,
    loss: Annotated[
        list[RowLoss] | None, typer.Option(help="May be given several times; default: both.")
    ] = None,
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

    finish(
        rows.measure(problem or list(RowProblem), loss or list(RowLoss), repeats, limit, lightning), output
    )


class TaxonomyProblem(StrEnum):
    """What `taxonomy` measures."""

    LSHTC1 = "lshtc1"
    LSHTC1_TASK1 = "lshtc1-task1"
    IMAGECLEF = "imageclef"


@app.command()
def taxonomy(
    problem: Annotated[
        list[TaxonomyProblem] | None, typer.Option(help="May be given several times; default: all.")
    ] = None,
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


class ItemLengths(StrEnum):
    """How long the items of `inference` are."""

    SENTENCES = "sentences"
    UNEQUAL = "unequal"
    SINGLE = "single"
    ONE_WORD = "one-word"


@app.command()
def inference(
    states: Annotated[
        list[int] | None, typer.Option(min=1, help="May be given several times; default: 4 to 146.")
    ] = None,
    lengths: Annotated[ItemLengths, typer.Option(help="How long the items are.")] = ItemLengths.SENTENCES,
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
    from benchmarks import max_margin

    finish(max_margin.measure(tol), output)


class HingeProblem(StrEnum):
    """What `hinge` measures."""

    NEWSGROUPS = "newsgroups"
    BANKING77 = "banking77"
    LETTERS = "letters"


@app.command()
def hinge(
    problem: Annotated[
        list[HingeProblem] | None, typer.Option(help="May be given several times; default: all.")
    ] = None,
    strength: Annotated[float, typer.Option("--C", min=0, help="Strength of the loss.")] = 1.0,
    output: Output = None,
) -> None:
    """The multiclass hinge: liblinear's solver on words, scikit-learn's SVC on pixels of letters."""
    from benchmarks import hinge

    for name in problem or list(HingeProblem):
        is_kernel = name is HingeProblem.LETTERS
        finish(hinge.measure_kernel(strength) if is_kernel else hinge.measure_linear(name, strength), output)


@app.command()
def spans(output: Output = None) -> None:
    """F1 of spans in labels of CoNLL-2000's size: crfqn against seqeval."""
    from benchmarks import span_metrics

    finish(span_metrics.measure(), output)


app.command()(text)


if __name__ == "__main__":
    from crfqn.errors import CrfqnError

    try:
        app()
    except CrfqnError as error:
        sys.exit(f"error: {error}")
