"""Options that commands share or that belong together: each is declared once, with its name, type and help.

A dataclass here is one argument of a command, and its fields are the options that a user sees; `with_option_groups`
translates. This module loads with every call of `crfqn`, so it imports nothing heavy.
"""

import difflib
import inspect
import math
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass, field, fields, is_dataclass, make_dataclass, replace
from functools import partial, wraps
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, get_args

import typer
from typer.core import TyperCommand

from crfqn.choices import BY_FEATURE, LOSSES, STRUCTURED
from crfqn.cli.output import command_files
from crfqn.data_options import DATA_OPTIONS, DEV_OPTIONS, FORMAT, SECTIONS, Key, Option, keys_in
from crfqn.errors import InputError
from crfqn.messages import bounded, shorten
from crfqn.model.label_constraints import LabelConstraints
from crfqn.numerals import number_in, whole_number_in
from crfqn.parameters import NAMES_ELSEWHERE, OPTION_NAMES, OPTIONS, PARAMETERS, Parameter

METAVARS = {float: "NUMBER", int: "INTEGER", str: "NAME"}
CHOICES = {"loss": (*LOSSES,)}  # which have estimators of their own
# Of names that there are elsewhere and that no option has: the argument of the command.
ARGUMENTS = {
    **dict.fromkeys(("min_freq", "minfreq"), ("min_count", "")),
    **{
        "scoring": ("metric", ""),
        "dask_client": ("scheduler", ""),
        "verbose": ("is_quiet", ""),
        "warm_start": ("start", ""),
    },
}
WORDS = {"true": True, "false": False}
# Parameters of commands that name files to read, and files to write; commands know the files of their recipes.
READS = (
    *("data", "test", "dev", "start", "dense", "templates", "taxonomy"),
    *(name for name, row in BY_FEATURE.items() if row.read_file),
    *("model", "input", "source"),
)
WRITES = ("output", "csv", "plot", "target")
UPDATES = {
    "train": "start",
    "calibrate": "model",
}  # what the output of a command may replace: it is read before
MORE = {  # what the help says of a parameter besides what the table does
    **dict.fromkeys(("l1", "group_l1"), "; auto: by the data"),
    "loss": f"; of chains and taxonomies {' or '.join(STRUCTURED)}, of ranking recipes none; "
    f"{' and '.join(name for name, form in STRUCTURED.items() if form.solvers)} of these needs L2 only (--l1 0)",
    "penalty": ", of flat and ranking recipes; strengths of the recipe that it does not have are left out",
    **{name: row.help for name, row in BY_FEATURE.items()},
    "class_weight": ", or label=weight,label=weight",
    "tol": "; auto: what predictions need",
    "scheme": ": IOB2, IOBES and others",
    "once": ", as City,State; with a scheme types of spans",
    "transition_rules": ": seen, those that neighbours in the training data keep",
    "solver": "; others: prox-qn, owl-qn, l-bfgs, sgd and those of the manual's page on training",
    "basis": ": powers, as 1,2,3",
    "checkpoint_every": "; 30s",
}

# How `crfqn cv` and `crfqn path` cut the training items into folds.
FOLDS = "shuffled by a fixed seed; folds of items with one label each have equal shares of the labels"

JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
QUIET = "No progress and messages, {} only."
QuietOption = Annotated[bool, typer.Option("--quiet", "-q", help=QUIET.format("warnings and errors"))]
QuietResultOption = Annotated[
    bool, typer.Option("--quiet", "-q", help=QUIET.format("the result, warnings and errors"))
]
FormatOption = Annotated[str | None, typer.Option("--format", help=FORMAT)]

DENSE = (
    "A .npy or .npz file with a dense block of features beside those of the data file: one row per item, or per "
    "position of sequences."
)
DenseOption = Annotated[Path | None, typer.Option("--dense", help=DENSE)]
LabelOption = Annotated[
    str | None,
    typer.Option(
        "--label",
        help="The column with the labels, as in `crfqn train`; default: that of the training files.",
    ),
]
EncodingOption = Annotated[
    str | None,
    typer.Option(
        "--encoding",
        help="The encoding of the input and of the output (JSON is always UTF-8): utf-8, latin-1, utf-16, bytes "
        "(UTF-8, with other bytes kept as they are), ...; default: that of the training files; UTF-8 for JSON and "
        "CoNLL-U.",
    ),
]
ThresholdOption = Annotated[
    float | None,
    typer.Option(
        "--threshold",
        min=0,
        max=1,
        help="The least probability of a label, at each position of a sequence. Without one that is so probable there "
        "is no label: a line has - for it, JSON null. In a taxonomy the label is the most specific node of at least "
        "this probability on the way down to the most probable children.",
    ),
]


def option(help: str, *names: str, default: Any = None, **limits: Any) -> Any:
    """Declare an option of a group: its help, its names if not the field's, its default and what typer checks."""
    return field(default=default, metadata={"option": typer.Option(*names, help=help, **limits)})


def parse_value(rule: Parameter, text: str) -> Any:
    """Return the value of a text of the command line: a number, numbers, true or false, or the text; typer.BadParameter
    where the parameter does not take it."""
    if rule.reader is not None:
        try:
            return rule.reader(text)
        except InputError as error:
            raise typer.BadParameter(str(error)) from error
    numbers, texts = (
        lambda text: tuple(map(whole_number_in, text.split(","))),
        lambda text: tuple(text.split(",")),
    )
    readers: tuple[Any, ...] = (whole_number_in, _number, numbers, WORDS.__getitem__, str, texts)
    for read in readers[rule.kind is float :]:
        with suppress(ValueError, KeyError):
            if rule.allows(value := read(text)):
                return value
    raise typer.BadParameter(f"expected {rule.expected}, got {shorten(text)}")


def _number(text: str) -> float:
    if math.isnan(number := number_in(text)):
        raise ValueError(f"expected a number, got {text!r}")
    return number


def table_option(name: str, row: Option) -> tuple[str, Any, Any]:
    """Return a row of a table as a field of a group, whose default is None. A row without help is a parameter of the
    estimators: `PARAMETERS` has its values and its description."""
    dashed = f"--{name.replace('_', '-')}"
    names: tuple[str, ...]
    limits: dict[str, Any] = {"rich_help_panel": row.panel}
    if row.help:
        key = (
            keys_in(SECTIONS[row.section])[row.key] if row.section else Key(Parameter("", row.kind), None, ())
        )
        kind: Any = list[str] if row.takes_several else key.rule.kind
        text = row.help
        names = (f"{dashed}/--no-{name}" if kind is bool and key.default else dashed,)
        limits["min"] = key.rule.low
    else:
        rule = PARAMETERS[row.key]
        words = () if row.is_number else rule.words
        rule = replace(rule, is_optional=False, words=words, choices=CHOICES.get(row.key, rule.choices))
        kind = bool if rule.kind is bool and not words else Any
        names = OPTION_NAMES.get(row.key, (f"{dashed}/--no-{dashed[2:]}" if kind is bool else dashed,))
        choices = f": {', '.join(rule.choices[:-1])} or {rule.choices[-1]}" if rule.choices else ""
        text = f"{rule.description[:1].upper()}{rule.description[1:]}{choices}{row.more}."
        if kind is Any:
            kind = Any if rule.reader is None else list[Any]
            limits |= {"parser": partial(parse_value, rule), "metavar": METAVARS.get(rule.kind, "VALUE")}
    return (
        name,
        kind | None,
        field(default=None, metadata={"option": typer.Option(*names, help=text, **limits)}),
    )


def parameter_option(name: str, panel: str | None = None) -> Any:
    """Return the option of a parameter that stands alone."""
    return table_option(name, Option("", name, panel, ""))[2].metadata["option"]


def overrides(name: str, left_out: Collection[str] = (), **more: str) -> type:
    """Return the group of the options of all parameters except those `left_out`. `more` extends the help of some,
    which, like l2, must be numbers."""
    rows = {
        key: Option(
            "", key, panel or None, "", more.get(key, MORE.get(key, "")), is_number=key in ("l2", *more)
        )
        for panel, keys in OPTIONS.items()
        for key in keys
        if key not in left_out
    }
    return make_dataclass(name, [table_option(key, row) for key, row in rows.items()])


# Data of one's own in the place of a recipe, in `crfqn train`, `path` and `cv`.
DataOptions = make_dataclass("DataOptions", [table_option(*item) for item in DATA_OPTIONS.items()])
# The model that a training starts from, and items that it is scored on while it runs, in `crfqn train`.
DevOptions = make_dataclass("DevOptions", [table_option(*item) for item in DEV_OPTIONS.items()])
# Parameters of the estimator that replace the recipe's, in `crfqn train` and `cv`; `crfqn path` chooses l1 itself.
TrainOverrides = overrides("TrainOverrides")
PathOverrides = overrides(
    "PathOverrides",
    ("l1", "group_l1", "cv", "max_seconds", "checkpoint", "checkpoint_every"),
    tol=", proved of the best model; auto, the default, is 1e-3 for it",
)


# fmt: off
@dataclass(frozen=True)
class ClusterOptions:
    """Where the data are held during a training, in `crfqn train`."""

    scheduler: str | None = option("Train on the workers of the Dask cluster that has its scheduler here, tcp://...; "
        "they read the files of --data, a shard each.", rich_help_panel="Cluster")
    workers: int | None = option("Train on this number of worker processes of this machine.", min=1,
        rich_help_panel="Cluster")
    worker_timeout: Any = field(default=None, metadata={"option": parameter_option("worker_timeout", "Cluster")})


@dataclass(frozen=True)
class PathOptions:
    """The grid of `crfqn path`, how its models are scored, when to stop, and where the results go."""

    n_values: int | None = option("The number of pairs of l1 and l2 to try: those of the recipe first, then pairs "
        "around them in steps of factor 3 (default 9). With --l1 or --patience the number of values of l1 (default "
        "20).", "--values", min=1)
    l1: float | None = option("Instead, descend from the l1 with which all weights are zero to this one (group_l1 for "
        "a penalty over rows).", min=0)
    holdout: float = option("The share of the training items that models are scored on.", default=0.1, min=0, max=1)
    cv: int | None = option(f"Score by cross-validation with this number of folds instead. The training items are "
        f"{FOLDS}.", min=2)
    patience: int | None = option("Descend, and stop after this number of values without a better score; without "
        "--l1 at the latest at a tenth of auto or 1/100 of the largest value.", min=1)
    max_seconds: Any = field(default=None, metadata={"option": parameter_option("max_seconds")})
    csv: Path | None = option("Write the table here, as CSV.")
    plot: Path | None = option("Draw accuracy, non-zeros, gap and seconds here (.png, .svg, .pdf).")
    as_json: JsonOption = False


@dataclass(frozen=True)
class PredictOptions:
    """The columns that `crfqn predict` writes, and how it chooses labels; None where the user asked for nothing."""

    with_marginals: bool = option("Add the probabilities of labels, as label:p, tab-separated: of all labels for a "
        "position, of the 10 most probable labels for a document.", "--marginals", default=False)
    top: int | None = option("The number of labels to write of a document, with their probabilities, the most "
        "probable first.", min=1)
    n_best: int | None = option("The number of labellings to write of a sequence, the most probable first. A line "
        "@probability TAB number precedes each, or the line that --to crfpp or wapiti has there.", "--n-best", min=1)
    once: str | None = option("Labels that form at most one run in a sequence each, as City,State (with a scheme: "
        "types of spans). Default: those of the training; an empty text means none.")
    threshold: ThresholdOption = None
    with_score: bool = option("Write the log-probability of the labels in nats: in a line @log-probability TAB number "
        "before a sequence, as number TAB label for a document.", "--score", default=False)
    as_json: bool = option("Write one JSON object per line instead, with the labels and what other options ask "
        "for.", "--json",
        default=False)
    format: FormatOption = None
    dense: DenseOption = None
    to: str | None = option("Write the input with the predicted labels, in this format: conll, jsonl, csv, crfsuite, "
        "... In the format of the input only the labels change; other formats get a further column.")
    is_text: bool = option("The input is raw text, one item per line; models of words cut it into words and "
        "punctuation. Default: on if the model reads only words and the input looks like sentences.", "--text",
        default=False)
    encoding: EncodingOption = None
    max_item_length: int | None = option("The number of lines that a sequence may have, since all of it is in memory "
        "before it is labelled. Default: 1,000,000 of standard input and pipes, which may never end; any of files.",
        min=1)

    @property
    def constraints(self) -> LabelConstraints:
        """The constraints on the labels."""
        return LabelConstraints(once=None if self.once is None else [*filter(None, self.once.split(","))])

    @property
    def labelling(self) -> dict[str, Any]:
        """What there is of constraints and a threshold, as arguments of `predict` and `decode`."""
        least = {} if self.threshold is None else {"threshold": self.threshold}
        return self.constraints.arguments | least


# fmt: on
ThreadsOption = Annotated[Any, parameter_option("n_threads")]


class Command(TyperCommand):
    """A command that refuses a repeated option, unless its values form a set, suggests a known one for an unknown, and
    notes the files that it is given."""

    def make_context(self, *arguments: Any, **options: Any) -> Any:
        """Return the context of a command line; usage errors are bounded as other messages are."""
        try:
            return super().make_context(*arguments, **options)
        except Exception as error:  # whose class has no public name in typer
            if hasattr(error, "message"):
                error.message = bounded(error.message)
            raise

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the command line; usage error for a repeated or an unknown option. Suggestions come from the names of
        other libraries and of Python, or from similar names."""
        try:
            texts, _, occurrences = self.make_parser(ctx).parse_args([*args])
        except Exception as error:
            if not hasattr(error, "possibilities"):
                raise
            name: str = getattr(error, "option_name", "")
            options = {p.name: p.opts[0] for p in self.get_params(ctx) if p.opts[0][:1] == "-"}
            key = name.lstrip("-").replace("-", "_")
            parameter, words = ARGUMENTS.get(key) or NAMES_ELSEWHERE.get(key, (key, ""))
            close = difflib.get_close_matches(name, options.values(), n=3)
            hint = f"did you mean {' or '.join(close)}?" if close else f"{ctx.command_path} --help lists all"
            if parameter in options and (not words or words.startswith(parameter)):
                hint = f"expected {options[parameter]}" + f" ({words})" * (words not in ("", parameter))
            ctx.fail(f"no option {name}; {hint}")
        for option in occurrences:
            if occurrences.count(option) > 1 and option.param_type_name == "option" and not option.multiple:
                ctx.fail(
                    f"{'/'.join([*option.opts[:1], *option.secondary_opts])} given twice; expected it once"
                )
        remaining = super().parse_args(ctx, args)
        named = [texts.get(name) or [] for name in READS if name != UPDATES.get(str(self.name))]
        inputs = chain.from_iterable([each] if isinstance(each, str) else each for each in named)
        outputs = [ctx.params[name] for name in WRITES if ctx.params.get(name) is not None]
        command_files.named = [*inputs], outputs
        return remaining


def with_option_groups(function: Callable[..., Any]) -> Callable[..., Any]:
    """Take each dataclass parameter of `function` as its fields, for typer to make an option of each; a dict that is
    annotated by one has them by name."""
    signature = inspect.signature(function)
    groups: dict[str, Any] = {}
    parameters: list[inspect.Parameter] = []
    for name, parameter in signature.parameters.items():
        kind = parameter.annotation
        group: Any = next((one for one in (kind, *get_args(kind)[1:]) if is_dataclass(one)), None)
        if not isinstance(group, type):
            parameters.append(parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY))
            continue
        groups[name] = group
        for rule in fields(group):  # type: ignore[arg-type]
            annotation = Annotated[rule.type, rule.metadata["option"]] if rule.metadata else rule.type
            how: dict[str, Any] = {"default": rule.default, "annotation": annotation}
            parameters.append(inspect.Parameter(rule.name, inspect.Parameter.KEYWORD_ONLY, **how))

    @wraps(function)
    def run(**options: Any) -> Any:
        for name, group in groups.items():
            values = {rule.name: options.pop(rule.name) for rule in fields(group)}
            options[name] = group(**values) if signature.parameters[name].annotation is group else values
        return function(**options)

    run.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run
