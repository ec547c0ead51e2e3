"""The command `benchmark.py text`: its options."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from benchmarks.report import finish


class TextData(StrEnum):
    """The texts of `text`."""

    COMPANY = "company"
    PERSON = "person"
    CHUNKS_500 = "conll2000-500"
    CHUNKS_2000 = "conll2000-2000"
    DUTCH_UPOS = "dutch-upos"
    BTC = "btc"
    CHUNKS = "conll2000"
    DUTCH_XPOS = "dutch-xpos"


class TextPenalty(StrEnum):
    """The penalties of `text`, as CRFsuite names them."""

    L1 = "c1=1"
    ELASTIC_NET = "c1=c2=0.1"
    WEAK_L2 = "c2=0.1"
    L2 = "c2=1"


class TextPart(StrEnum):
    """The comparisons of `text`."""

    TRAINING = "training"
    CERTIFICATE = "certificate"
    ESTIMATORS = "estimators"
    ONLINE = "online"
    MEMORY = "memory"
    FLAT = "flat"


class FlatText(StrEnum):
    """The sets of the part `flat` of `text`."""

    DIGITS = "digits"
    BANKING77 = "banking77"
    NEWSGROUPS = "newsgroups"
    MNIST = "mnist"


def text(
    data: Annotated[
        list[TextData] | None, typer.Option(help="May be given several times; default: all.")
    ] = None,
    penalty: Annotated[
        list[TextPenalty] | None, typer.Option(help="May be given several times; default: all.")
    ] = None,
    part: Annotated[
        list[TextPart] | None,
        typer.Option(help="May be given several times; default: all but certificate, memory of btc alone."),
    ] = None,
    flat_data: Annotated[
        list[FlatText] | None, typer.Option(help="Of the part flat; default: all, none if --data is given.")
    ] = None,
    repeats: Annotated[int, typer.Option(min=1, help="Turns; a fit above 10 s is made once.")] = 3,
    limit: Annotated[float, typer.Option(min=1, help="Seconds for a single fit of crfqn.")] = 120.0,
    crfsuite_iterations: Annotated[
        int | None, typer.Option(min=1, help="Iterations of CRFsuite; default: all it takes, minutes.")
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="A made-up set: seconds, says nothing.")] = False,
    output: Annotated[
        Path | None, typer.Option(help="A folder for the numbers (JSON) and tables (Markdown).")
    ] = None,
) -> None:
    """Names, tags, entities and chunks against CRFsuite, flat texts against scikit-learn, one core."""
    from benchmarks.text import measure
    from benchmarks.text.problems import MADE_UP
    from benchmarks.text.training import PENALTIES

    chosen = [each for each in PENALTIES if penalty is None or each.name in penalty]
    parts = (
        [str(name) for name in part] if part else [name for name in measure.PARTS if name != "certificate"]
    )
    flats = flat_data or ([] if data or quick else list(FlatText))
    selection = measure.Selection(
        [MADE_UP] if quick else [str(name) for name in data or TextData],
        chosen[:1] if quick else chosen,
        parts,
        [str(name) for name in flats],
        1 if quick else repeats,
        limit,
        crfsuite_iterations,
    )
    finish(measure.measure(selection), output)
