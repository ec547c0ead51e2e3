"""Options that commands share or that belong together: each is declared once, with its name, type and help.

A dataclass here is one argument of a command, and its fields are the options that a user sees; `with_option_groups`
translates. This module loads with every call of `crfqn`, so it imports nothing heavy.
"""

import difflib
import inspect
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import Field, dataclass, field, fields, is_dataclass, make_dataclass, replace
from functools import partial, wraps
from pathlib import Path
from typing import Annotated, Any, get_args

import typer
from typer.core import TyperCommand

from crfqn.choices import LOSSES, STRUCTURED
from crfqn.data_options import DATA_OPTIONS, FORMAT, SECTIONS, Option, keys_in
from crfqn.parameters import NAMES_ELSEWHERE, OPTION_NAMES, OPTIONS, PARAMETERS, Parameter

METAVARS = {float: "NUMBER", int: "INTEGER", str: "NAME"}
CHOICES = {"loss": (*LOSSES,)}  # which have estimators of their own
# Of names that there are elsewhere and that no option has: the argument of the command.
ARGUMENTS = {
    **dict.fromkeys(("min_freq", "minfreq"), ("min_count", "")),
    **{
        "scoring": ("metric", ""),
        "client": ("scheduler", ""),
        "verbose": ("is_quiet", ""),
        "warm_start": ("start", ""),
    },
}
WORDS = {"true": True, "false": False}
MORE = {  # what the help says of a parameter besides what the table does
    **dict.fromkeys(("l1", "group_l1"), "; auto: by the data"),
    "loss": f"; of chains and taxonomies {' or '.join(STRUCTURED)}, of ranking recipes none; "
    f"{' and '.join(name for name, form in STRUCTURED.items() if form.solvers)} of these needs L2 only (--l1 0)",
    "penalty": ", of flat and ranking recipes; strengths of the recipe that it does not have are left out",
    "tol": "; auto: what predictions need",
    "scheme": ": IOB2, IOBES and others",
    "constraints": ": seen, those that neighbours in the training data keep",
    "solver": "; others: prox-qn, owl-qn, l-bfgs, sgd and those of the manual's page on training",
    "basis": ": powers, as 1,2,3",
    "checkpoint_every": "; 30s",
}

# What `crfqn cv` and `crfqn path` cut the training items into.
FOLDS = (
    "shuffled by a fixed seed (of single labels each with the same shares of them), as in crfqn path and cv"
)

JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
QuietOption = Annotated[bool, typer.Option("--quiet", "-q", help="No progress and messages, errors only.")]
FormatOption = Annotated[str | None, typer.Option("--format", help=FORMAT)]

DENSE = (
    "A .npy or .npz file of a dense block of features beside the data file's: a row an item, of sequences a row a "
    "position."
)
DenseOption = Annotated[Path | None, typer.Option("--dense", help=DENSE)]
EncodingOption = Annotated[
    str | None,
    typer.Option(
        "--encoding",
        help="Of the input, and of what is written but JSON: utf-8, latin-1, utf-16, bytes (UTF-8 with other bytes "
        "between, as they are), ...; default: that of the files trained on, UTF-8 of JSON and CoNLL-U.",
    ),
]


def option(help: str, *names: str, default: Any = None, **limits: Any) -> Any:
    """Declare an option of a group: its help, its names if not the field's, its default and what typer checks."""
    return field(default=default, metadata={"option": typer.Option(*names, help=help, **limits)})


def value_of(rule: Parameter, text: str) -> Any:
    """Return the value that a text of the command line stands for: a number, numbers, true or false, or itself;
    typer.BadParameter where the parameter may have none of these."""
    readers = (int, float, lambda text: tuple(map(int, text.split(","))), WORDS.__getitem__, str)
    for read in readers[rule.kind is float :]:
        with suppress(ValueError, KeyError):
            if rule.allows(value := read(text)):
                return value
    raise typer.BadParameter(f"expected {rule.expected}, got {text!r}")


def parameter(
    name: str, more: str = "", panel: str | None = None, is_number: bool = False
) -> tuple[Any, Any]:
    """Return type and option of an estimators' parameter, with its row's help and `more`; `is_number`: no word may
    stand for it."""
    rule = PARAMETERS[name]
    texts = () if is_number else rule.words
    rule = replace(rule, is_optional=False, words=texts, choices=CHOICES.get(name, rule.choices))
    choices = f": {', '.join(rule.choices[:-1])} or {rule.choices[-1]}" if rule.choices else ""
    is_flag = rule.kind is bool and not rule.words
    dashed = f"--{name.replace('_', '-')}"
    names = OPTION_NAMES.get(name, (f"{dashed}/--no-{dashed[2:]}" if is_flag else dashed,))
    limits: dict[str, Any] = (
        {} if is_flag else {"parser": partial(value_of, rule), "metavar": METAVARS.get(rule.kind, "VALUE")}
    )
    text = f"{rule.says[:1].upper()}{rule.says[1:]}{choices}{more}."
    return bool | None if is_flag else Any, typer.Option(*names, help=text, rich_help_panel=panel, **limits)


def overrides(name: str, left_out: Collection[str] = (), **how: dict[str, Any]) -> type:
    """Return the group of all options of parameters but those `left_out`; `how` are arguments of `parameter` by name.
    None keeps what the recipe says."""
    made = [
        (key, *parameter(key, **{"panel": panel or None, "more": MORE.get(key, "")} | how.get(key, {})))
        for panel, keys in OPTIONS.items()
        for key in keys
        if key not in left_out
    ]
    return make_dataclass(
        name, [(key, kind, field(default=None, metadata={"option": made})) for key, kind, made in made]
    )


def data_option(name: str, row: Option) -> tuple[str, Any, Any]:
    """Return an option of the table of data and features as a field of a group; None says nothing."""
    if row.help:
        key = keys_in(SECTIONS[row.section])[row.key]
        kind: Any = list[str] if row.takes_several else key.rule.kind
        dashed = f"--{name.replace('_', '-')}"
        names = f"{dashed}/--no-{name}" if kind is bool and key.default else dashed
        made = typer.Option(names, help=row.help, rich_help_panel=row.panel, min=key.rule.low)
    else:
        kind, made = parameter(name, row.more, row.panel)
    return name, kind | None, field(default=None, metadata={"option": made})


# Data of one's own in the place of a recipe, in `crfqn train`, `path` and `cv`.
DataOptions = make_dataclass("DataOptions", [data_option(name, row) for name, row in DATA_OPTIONS.items()])


@dataclass(frozen=True)
class DevOptions:
    """The model that a training starts from, and items that it is scored on while it runs, in `crfqn train`."""

    start: Path | None = option(
        "Go on from the weights of this model file, crfqn's or another tool's, of the labels and features (by name) in "
        "common; others start from zero.",
        rich_help_panel="Start, and score on --dev",
    )
    dev: list[str] | None = option(
        "A labelled file in the format of the training data: the model has the weights that score best on it, "
        "and the training stops when they get no better."
    )
    metric: str | None = option(
        "The score of --dev: accuracy (default), f1 (of chunks; of documents the macro mean), "
        "sequence_accuracy, span_f1:IOB2, hierarchical_f1, ...",
        rich_help_panel="Start, and score on --dev",
    )
    patience: Any = field(
        default=None, metadata={"option": parameter("patience", "; 10", "Start, and score on --dev")[1]}
    )


@dataclass(frozen=True)
class ClusterOptions:
    """Where the data are held during a training, in `crfqn train`."""

    scheduler: str | None = option(
        "Train on the workers of the Dask cluster that has its scheduler here, tcp://...; they read the files of "
        "--data, a shard each.",
        rich_help_panel="Cluster",
    )
    workers: int | None = option(
        "Train on so many worker processes of this machine.", min=1, rich_help_panel="Cluster"
    )


# Parameters of the estimator that replace the recipe's, in `crfqn train` and `cv`; `crfqn path` chooses l1 itself.
TrainOverrides = overrides("TrainOverrides", l2={"is_number": True})
PathOverrides = overrides(
    "PathOverrides",
    ("l1", "group_l1", "cv", "max_seconds", "checkpoint", "checkpoint_every"),
    l2={"is_number": True},
    tol={"is_number": True, "more": ", proved of the best model; auto, the default, is 1e-3 for it"},
)


@dataclass(frozen=True)
class PathOptions:
    """The grid of `crfqn path`, how its models are scored, when to stop, and where the results go."""

    n_values: int | None = option(
        "So many pairs of l1 and l2 around those of the recipe, the first, in steps of 3; 9 by default. With --l1 or "
        "--patience so many values of l1 (20).",
        "--values",
        min=1,
    )
    l1: float | None = option(
        "Instead: descend from the l1 under which all weights are zero to this one (group_l1 for a penalty over rows).",
        min=0,
    )
    holdout: float = option(
        "The share of the training items that models are scored on.", default=0.1, min=0, max=1
    )
    cv: int | None = option(f"Score by cross-validation instead: with so many folds, {FOLDS}.", min=2)
    patience: int | None = option(
        "Descend, and stop after so many values without a better score; without --l1 at the latest at a tenth of auto "
        "or 1/100 of the largest.",
        min=1,
    )
    max_seconds: Any = field(default=None, metadata={"option": parameter("max_seconds")[1]})
    csv: Path | None = option("Write the table here, as CSV.")
    plot: Path | None = option("Draw accuracy, non-zeros, gap and seconds here (.png, .svg, .pdf).")
    as_json: JsonOption = False


@dataclass(frozen=True)
class PredictOptions:
    """The columns that `crfqn predict` writes, and how it chooses labels; None where the user asked for nothing."""

    with_marginals: bool = option(
        "Add probabilities of labels, label:p, tab-separated: of all labels of a position, of the 10 most "
        "probable labels of a document.",
        "--marginals",
        default=False,
    )
    top: int | None = option(
        "So many labels of a document with their probabilities, the most probable first.", min=1
    )
    n_best: int | None = option(
        "So many labellings of a sequence, the most probable first: before each of them @probability TAB number, or "
        "what --to crfpp or wapiti has there.",
        "--n-best",
        min=1,
    )
    threshold: float | None = option(
        "In a taxonomy: go down from the most probable top node as long as the most probable child "
        "has this probability, and print where that ends.",
        min=0,
        max=1,
    )
    with_score: bool = option(
        "The log-probability of the labels in nats: before a sequence as @log-probability TAB number, "
        "before the label of a document as number TAB label.",
        "--score",
        default=False,
    )
    as_json: bool = option(
        "Write a JSON object a line instead: labels and what else is asked for.", "--json", default=False
    )
    format: FormatOption = None
    dense: DenseOption = None
    to: str | None = option(
        "Write the input again with the predicted labels, in this format: conll, jsonl, csv, crfsuite, ... In "
        "its own format nothing but labels changes; another one gets a further column."
    )
    is_text: bool = option(
        "The input is raw text, a line an item: for models of words it is cut into words and punctuation. Default: "
        "where a model reads words alone and the input looks like sentences.",
        "--text",
        default=False,
    )
    encoding: EncodingOption = None


ThreadsOption = Annotated[Any, parameter("n_threads")[1]]


class Command(TyperCommand):
    """A command that takes an option once, unless several values of it are one set, and knows what is meant by others
    than its own."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the command line; a usage error for an option that is given twice, or that there is not."""
        try:
            _, _, occurrences = self.make_parser(ctx).parse_args([*args])
        except Exception as error:  # whose class has no public name in typer
            if not hasattr(error, "possibilities"):
                raise
            name: str = getattr(error, "option_name", "")
            ctx.fail(f"no option {name}; {self._hint(ctx, name)}")
        for option in occurrences:
            if occurrences.count(option) > 1 and option.param_type_name == "option" and not option.multiple:
                ctx.fail(
                    f"{'/'.join([*option.opts[:1], *option.secondary_opts])} given twice; expected it once"
                )
        return super().parse_args(ctx, args)

    def _hint(self, ctx: Any, name: str) -> str:
        """Return what stands for an option that there is not: by the names of other libraries and of Python, else by
        the letters."""
        options = {param.name: param.opts[0] for param in self.get_params(ctx) if param.opts[0][:1] == "-"}
        key = name.lstrip("-").replace("-", "_")
        parameter, words = ARGUMENTS.get(key) or NAMES_ELSEWHERE.get(key, (key, ""))
        if parameter in options and (not words or words.startswith(parameter)):
            return f"expected {options[parameter]}" + f" ({words})" * (words not in ("", parameter))
        close = difflib.get_close_matches(name, options.values(), n=3)
        return f"did you mean {' or '.join(close)}?" if close else f"{ctx.command_path} --help lists all"


def with_option_groups(function: Callable[..., Any]) -> Callable[..., Any]:
    """Take each dataclass parameter of `function` as its fields, for typer to make an option of each; a dict that is
    annotated by one has them by name."""
    signature = inspect.signature(function)
    kinds = {name: parameter.annotation for name, parameter in signature.parameters.items()}
    groups: dict[str, Any] = {
        name: group
        for name, kind in kinds.items()
        for group in (kind, *get_args(kind)[1:])
        if is_dataclass(group) and isinstance(group, type)
    }

    @wraps(function)
    def run(**given: Any) -> Any:
        for name, group in groups.items():
            values = {rule.name: given.pop(rule.name) for rule in fields(group)}
            given[name] = group(**values) if kinds[name] is group else values
        return function(**given)

    parameters: list[inspect.Parameter] = []
    for name, parameter in signature.parameters.items():
        parameters += map(_parameter, fields(groups[name])) if name in groups else [parameter]
    parameters = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in parameters]
    run.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run


def _parameter(rule: Field[Any]) -> inspect.Parameter:
    """Return a field of a group as typer takes an option."""
    annotation = Annotated[rule.type, rule.metadata["option"]] if rule.metadata else rule.type
    return inspect.Parameter(
        rule.name, inspect.Parameter.KEYWORD_ONLY, default=rule.default, annotation=annotation
    )
