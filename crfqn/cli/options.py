"""Options that commands share or that belong together: each is declared once, with its name, type and help.

A dataclass here is one argument of a command, and its fields are the options that a user sees; `with_option_groups`
translates. This module loads with every call of `crfqn`, so it imports nothing heavy.
"""

import inspect
import math
from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass
from functools import wraps
from pathlib import Path
from typing import Annotated, Any

import typer

JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
QuietOption = Annotated[bool, typer.Option("--quiet", "-q", help="No progress and messages, errors only.")]
ThreadsOption = Annotated[int | None, typer.Option("--threads", min=1, help="Threads; default: all cores.")]
SecondsOption = Annotated[float | None, typer.Option("--max-time", min=0, help="Stop after so many seconds.")]


def strength(text: str) -> float | str:
    """Return the strength that a word of the command line means; typer.BadParameter for others."""
    if text == "auto":
        return text
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value < math.inf:
        raise typer.BadParameter(f"expected auto or a finite number >= 0, got {text!r}")
    return value


L2Option = Annotated[float | None, typer.Option(min=0, help="L2 penalty: larger means smaller weights.")]


FormatOption = Annotated[
    str | None,
    typer.Option(
        "--format",
        help="Of the files: conll, conll2003, conllu, crfsuite, svmlight, jsonl, csv, tsv, parquet, text, ...; "
        "default: what their names tell.",
    ),
]


@dataclass(frozen=True)
class DataOptions:
    """Data of one's own in the place of a recipe, in `crfqn train`, `path` and `cv`."""

    data: Annotated[
        str | None, typer.Option(help="A file to train on, in the place of a recipe; - is standard input.")
    ] = None
    test: Annotated[str | None, typer.Option(help="A file to score the model on, with --data.")] = None
    format: FormatOption = None
    structure: Annotated[
        str | None,
        typer.Option(
            help="What the labels are, with --data: chain, flat, taxonomy or ranking; default: by format."
        ),
    ] = None
    label: Annotated[
        str | None,
        typer.Option(
            help="The column of labels of a table, or CoNLL-U's field (xpos, misc:NER), with --data; default: label, "
            "tag, ..., or upos."
        ),
    ] = None
    sentence: Annotated[
        str | None,
        typer.Option(
            help="The column of a table that tells the items apart, with --data; or blank lines do."
        ),
    ] = None
    columns: Annotated[
        str | None, typer.Option(help='Names of the columns before the label, with --data: "w pos".')
    ] = None
    features: Annotated[
        str | None,
        typer.Option(
            help="How observations become numbers, with --data: words (default of sequences: word forms, other "
            "columns, neighbours), windows (--templates), templates (--templates FILE), attributes, text, given."
        ),
    ] = None
    templates: Annotated[
        str | None, typer.Option(help='Features of the columns, with --data: "w[-1] w[0] w[1] w[-1]|w[0]".')
    ] = None
    min_count: Annotated[
        int | None, typer.Option(min=1, help="Leave out features at fewer positions, with --data.")
    ] = None
    n_hashed: Annotated[
        int | None,
        typer.Option(
            "--hashed",
            min=1,
            help="So many columns for all features, by hashing, with --data: less memory, no names.",
        ),
    ] = None


@dataclass(frozen=True)
class DevOptions:
    """Items that a training is scored on while it runs, in `crfqn train`."""

    dev: Annotated[
        str | None,
        typer.Option(
            help="A labelled file in the format of the training data: the model has the weights that score best on it, "
            "and the training stops when they get no better."
        ),
    ] = None
    metric: Annotated[
        str | None,
        typer.Option(
            help="The score of --dev: accuracy (default), f1 (of chunks; of documents the macro mean), "
            "sequence_accuracy, span_f1:IOB2, hierarchical_f1, ..."
        ),
    ] = None
    patience: Annotated[
        int | None, typer.Option(min=1, help="Stop after so many scores of --dev without a better one; 10.")
    ] = None


@dataclass(frozen=True)
class TrainOverrides:
    """Parameters of the estimator that replace the recipe's in `crfqn train`; None keeps what the recipe says."""

    l1: Annotated[
        Any,
        typer.Option(
            parser=strength,
            metavar="NUMBER",
            help="L1 penalty: larger means fewer weights; auto: by the data.",
        ),
    ] = None
    l2: L2Option = None
    group_l1: Annotated[
        Any,
        typer.Option(
            parser=strength,
            metavar="NUMBER",
            help="Penalty of whole features: larger means fewer of them; auto: by the data.",
        ),
    ] = None
    loss: Annotated[
        str | None,
        typer.Option(
            help="logistic, or hinge, which needs L2 only (--l1 0); of flat recipes also squared-hinge or "
            "multitask-squared-hinge; of ranking recipes none."
        ),
    ] = None
    penalty: Annotated[
        str | None,
        typer.Option(
            help="Of flat and ranking recipes: l1, elastic-net, l2, l1/l2, l1/linf or sparse-group; strengths of the "
            "recipe that it does not have are left out."
        ),
    ] = None
    tol: Annotated[
        float | None, typer.Option(min=0, help="Stop at this relative distance from the optimum.")
    ] = None
    stop: Annotated[
        str | None,
        typer.Option(help="What has to say so: estimate (default), or certificate: a proof, later."),
    ] = None
    max_iter: Annotated[int | None, typer.Option(min=1, help="Stop after so many iterations.")] = None
    max_seconds: SecondsOption = None
    n_threads: ThreadsOption = None


@dataclass(frozen=True)
class PathOptions:
    """The grid of `crfqn path`, how its models are scored, when to stop, and where the results go."""

    n_values: Annotated[
        int,
        typer.Option(
            "--values",
            min=1,
            help="So many values of l1 (group_l1 for a penalty over rows), evenly on a log scale.",
        ),
    ] = 20
    l1: Annotated[
        float | None,
        typer.Option(
            min=0,
            help="The smallest l1 (group_l1 for a penalty over rows); default: a tenth of auto, or 1/100 of the "
            "largest, at which all weights are zero.",
        ),
    ] = None
    holdout: Annotated[
        float, typer.Option(min=0, max=1, help="The share of the training items that models are scored on.")
    ] = 0.1
    cv: Annotated[
        int | None, typer.Option(min=2, help="Score by cross-validation with so many folds instead.")
    ] = None
    patience: Annotated[
        int | None, typer.Option(min=1, help="Stop after so many values without a better score.")
    ] = None
    max_seconds: SecondsOption = None
    csv: Annotated[Path | None, typer.Option(help="Write the table here, as CSV.")] = None
    plot: Annotated[
        Path | None, typer.Option(help="Draw accuracy, non-zeros, gap and seconds here (.png, .svg, .pdf).")
    ] = None
    as_json: JsonOption = False


@dataclass(frozen=True)
class PathOverrides:
    """Parameters of the estimator that replace the recipe's in `crfqn path`; None keeps what the recipe says."""

    l2: L2Option = None
    tol: Annotated[
        float | None,
        typer.Option(
            min=0, help="Certified relative distance of the last and the best model from the optimum."
        ),
    ] = None
    n_threads: ThreadsOption = None


@dataclass(frozen=True)
class PredictOptions:
    """The columns that `crfqn predict` writes, and how it chooses labels; None where the user asked for nothing."""

    with_marginals: Annotated[
        bool,
        typer.Option(
            "--marginals",
            help="Add probabilities of labels, label:p, tab-separated: of all labels of a position, of the 10 most "
            "probable labels of a document.",
        ),
    ] = False
    top: Annotated[
        int | None,
        typer.Option(
            min=1, help="So many labels of a document with their probabilities, the most probable first."
        ),
    ] = None
    threshold: Annotated[
        float | None,
        typer.Option(
            min=0,
            max=1,
            help="In a taxonomy: go down from the most probable top node as long as the most probable child "
            "has this probability, and print where that ends.",
        ),
    ] = None
    with_score: Annotated[
        bool,
        typer.Option(
            "--score",
            help="The log-probability of the labels in nats: before a sequence as @log-probability TAB number, "
            "before the label of a document as number TAB label.",
        ),
    ] = False
    as_json: Annotated[
        bool,
        typer.Option("--json", help="Write a JSON object a line instead: labels and what else is asked for."),
    ] = False
    format: FormatOption = None
    to: Annotated[
        str | None,
        typer.Option(
            help="Write the input again with the predicted labels, in this format: conll, jsonl, csv, crfsuite, ... In "
            "its own format nothing but labels changes; another one gets a further column."
        ),
    ] = None


def with_option_groups(function: Callable[..., Any]) -> Callable[..., Any]:
    """Take each dataclass parameter of `function` as its fields, for typer to make an option of each."""
    signature = inspect.signature(function)
    groups: dict[str, Any] = {
        name: parameter.annotation
        for name, parameter in signature.parameters.items()
        if is_dataclass(parameter.annotation)
    }

    @wraps(function)
    def run(**given: Any) -> Any:
        for name, group in groups.items():
            given[name] = group(**{field.name: given.pop(field.name) for field in fields(group)})
        return function(**given)

    options: list[inspect.Parameter] = []
    for name, parameter in signature.parameters.items():
        options += inspect.signature(groups[name]).parameters.values() if name in groups else [parameter]
    options = [option.replace(kind=inspect.Parameter.KEYWORD_ONLY) for option in options]
    run.__signature__ = signature.replace(parameters=options)  # type: ignore[attr-defined]
    run.__annotations__ = {option.name: option.annotation for option in options}
    return run
