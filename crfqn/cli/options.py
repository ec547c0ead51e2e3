"""Options that commands share: each is declared once, with its name, type and help.

A dataclass here is one argument of a command, and its fields are options of the command line; `with_option_groups`
converts between the two. Every call of `crfqn` imports this module, so it imports nothing heavy.
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
from crfqn.data_options import DATA_OPTIONS, DEV_OPTIONS, FORMAT_HELP, SECTIONS, Key, Option, keys_in
from crfqn.errors import InputError
from crfqn.messages import bounded, shorten
from crfqn.model.label_constraints import LabelConstraints
from crfqn.numerals import number_in, whole_number_in
from crfqn.parameters import NAMES_ELSEWHERE, OPTION_NAMES, OPTIONS, PARAMETERS, Parameter

METAVARS = {float: "NUMBER", int: "INTEGER", str: "NAME"}
LOSS_CHOICES = {"loss": (*LOSSES,)}  # of the option --loss: all, also those that only one estimator has
# The argument of the command for parameters of other libraries that are no option here.
ARGUMENTS_ELSEWHERE = {
    **dict.fromkeys(("min_freq", "minfreq"), ("min_count", "")),
    **{"scoring": ("metric", ""), "dask_client": ("scheduler", "")},
    **{"verbose": ("is_quiet", ""), "warm_start": ("start", "")},
}
FLAG_WORDS = {"true": True, "false": False}
# Parameters of commands that name files to read, and files to write. Commands register the files of recipes.
INPUT_PARAMETERS = (
    *("data", "test", "dev", "start", "dense", "templates", "taxonomy", "label_names", "gazetteer"),
    *(name for name, row in BY_FEATURE.items() if row.read_file),
    *("model", "input", "source"),
)
OUTPUT_PARAMETERS = ("output", "csv", "plot", "target")
# The input that the output of a command may replace, because it is read before.
REPLACED_INPUTS = {"train": "start", "calibrate": "model"}
HELP_DETAILS = {  # appended to a parameter's description in the help
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
FOLDS_HELP = "shuffled by a fixed seed; folds of items with one label each have equal shares of the labels"

JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
QUIET_HELP = "No progress and messages, {} only."
QuietOption = Annotated[bool, typer.Option("--quiet", "-q", help=QUIET_HELP.format("warnings and errors"))]
QuietResultOption = Annotated[
    bool, typer.Option("--quiet", "-q", help=QUIET_HELP.format("the result, warnings and errors"))
]
FormatOption = Annotated[str | None, typer.Option("--format", help=FORMAT_HELP)]

DENSE_HELP = (
    "A .npy or .npz file with a dense block of features in addition to those of the data file: one row per item, "
    "for sequences one row per position."
)
DenseOption = Annotated[Path | None, typer.Option("--dense", help=DENSE_HELP)]
LabelOption = Annotated[
    str | None,
    typer.Option(
        "--label",
        help="The column with the labels, as in `crfqn train`; default: that of the training files.",
    ),
]
MisalignedOption = Annotated[
    str | None,
    typer.Option(
        "--on-misaligned",
        help="What to do with spans of characters that begin or end within a token: error, expand or drop. Default: as "
        "in training.",
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
        help="The minimum probability of a label, at each position of a sequence. If no label is so probable, a line "
        "has -, and JSON has null. In a taxonomy the label is the most specific node with this probability on the path "
        "from the top to the most probable children.",
    ),
]


def option(help: str, *names: str, default: object = None, **limits: Any) -> Any:
    """Declare an option of a group: its help, names if they differ from the field's, default and limits for typer."""
    return field(default=default, metadata={"option": typer.Option(*names, help=help, **limits)})


def parse_value(rule: Parameter, text: str) -> Any:
    """Return the value of a text of the command line: a number, numbers, true or false, or the text.

    typer.BadParameter if the parameter does not allow it.
    """
    if rule.reader is not None:
        try:
            return rule.reader(text)
        except InputError as error:
            raise typer.BadParameter(str(error)) from error

    def numbers(text: str) -> object:
        return tuple(map(whole_number_in, text.split(",")))

    readers = (
        whole_number_in,
        _number,
        numbers,
        FLAG_WORDS.__getitem__,
        str,
        lambda text: tuple(text.split(",")),
    )
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
    """Return a row of a table of options as a field of a group, with default None.

    Values and description are those of a key of recipes (`SECTIONS`) or of a parameter of the estimators.
    """
    dashed = f"--{name.replace('_', '-')}"
    names: tuple[str, ...]
    limits: dict[str, Any] = {"rich_help_panel": row.panel}

    def described(rule: Parameter, more: str) -> str:
        choices = f": {', '.join(rule.choices[:-1])} or {rule.choices[-1]}" if rule.choices else ""
        return f"{rule.description[:1].upper()}{rule.description[1:]}{choices}{more}."

    if row.help or row.section:
        key = (
            keys_in(SECTIONS[row.section])[row.key] if row.section else Key(Parameter("", row.kind), None, ())
        )
        kind: Any = list[str] if row.takes_several else key.rule.kind
        text = row.help or described(
            key.rule, row.more or f" (default {key.default})" * bool(key.rule.choices)
        )
        names = (f"{dashed}/--no-{name}" if kind is bool and key.default else dashed,)
        limits["min"] = key.rule.low
        if kind is object:
            kind = Any
            limits |= {"parser": partial(parse_value, key.rule), "metavar": "VALUE"}
    else:
        rule = PARAMETERS[row.key]
        words = () if row.is_number else rule.words
        rule = replace(rule, is_optional=False, words=words, choices=LOSS_CHOICES.get(row.key, rule.choices))
        kind = bool if rule.kind is bool and not words else Any
        names = OPTION_NAMES.get(row.key, (f"{dashed}/--no-{dashed[2:]}" if kind is bool else dashed,))
        text = described(rule, row.more)
        if kind is Any:
            kind = Any if rule.reader is None else list[Any]
            limits |= {"parser": partial(parse_value, rule), "metavar": METAVARS.get(rule.kind, "VALUE")}
    return (
        name,
        kind | None,
        field(default=None, metadata={"option": typer.Option(*names, help=text, **limits)}),
    )


def parameter_option(name: str, panel: str | None = None) -> Any:
    """Return the option of a parameter of the estimators, for a command without groups."""
    return table_option(name, Option("", name, panel, ""))[2].metadata["option"]


def overrides(name: str, left_out: Collection[str] = (), **more: str) -> type:
    """Return the group of the options of all parameters except those `left_out`.

    `more` extends the help of some; these, like l2, must be numbers.
    """
    rows = {
        key: Option(
            "",
            key,
            panel or None,
            "",
            more.get(key, HELP_DETAILS.get(key, "")),
            is_number=key in ("l2", *more),
        )
        for panel, keys in OPTIONS.items()
        for key in keys
        if key not in left_out
    }
    return make_dataclass(name, [table_option(key, row) for key, row in rows.items()])


# Data files instead of a recipe, in `crfqn train`, `path` and `cv`.
DataOptions = make_dataclass("DataOptions", [table_option(*item) for item in DATA_OPTIONS.items()])
# The model that training starts from, and the validation items, in `crfqn train`.
DevOptions = make_dataclass("DevOptions", [table_option(*item) for item in DEV_OPTIONS.items()])
# Parameters of the estimator that replace those of the recipe, in `crfqn train` and `cv`; `crfqn path` chooses l1.
TrainOverrides = overrides("TrainOverrides")
PathOverrides = overrides(
    "PathOverrides",
    ("l1", "group_l1", "cv", "max_seconds", "checkpoint", "checkpoint_every"),
    tol=", proved of the best model; auto, the default, is 1e-3 for it",
)


# fmt: off
@dataclass(frozen=True)
class ClusterOptions:
    """The workers that hold the data during training, in `crfqn train`."""

    scheduler: str | None = option("Train on the workers of the Dask cluster with this scheduler, tcp://...; each "
        "worker reads shards of the files of --data.", rich_help_panel="Cluster")
    workers: int | None = option("Train on this number of worker processes of this machine.", min=1,
        rich_help_panel="Cluster")
    worker_timeout: Any = field(default=None, metadata={"option": parameter_option("worker_timeout", "Cluster")})


@dataclass(frozen=True)
class PathOptions:
    """The grid of `crfqn path`, the scoring of its models, its limits, and the output files."""

    n_values: int | None = option("The number of pairs of l1 and l2 to try: first the pair of the recipe, then "
        "pairs around it in steps of factor 3 (default 9). With --l1 or --patience the number of values of l1 "
        "(default 20).", "--values", min=1)
    l1: float | None = option("Try decreasing values of l1 instead (group_l1 for a penalty over rows), from the "
        "one at which all weights are zero to this one.", min=0)
    holdout: float = option("The fraction of the training items that models are scored on.", default=0.1, min=0, max=1)
    cv: int | None = option(f"Score by cross-validation with this number of folds instead. The training items are "
        f"{FOLDS_HELP}.", min=2)
    patience: int | None = option("Try decreasing values of l1, and stop after this number of values without a "
        "better score; without --l1 at the latest at a tenth of auto, or at 1/100 of the largest value.", min=1)
    max_seconds: Any = field(default=None, metadata={"option": parameter_option("max_seconds")})
    csv: Path | None = option("Write the table here, as CSV.")
    plot: Path | None = option("Draw accuracy, non-zeros, gap and seconds here (.png, .svg, .pdf).")
    as_json: JsonOption = False


@dataclass(frozen=True)
class SuggestOptions:
    """The items that `crfqn suggest` chooses, and the form in which it writes them."""

    n: int = option("The number of items to write.", "-n", "--number", default=50, min=1)
    measure: str = option("A measure that is large if the model is uncertain: confidence (1 - probability of the "
        "label; of a sequence - its logarithm / positions), margin (1 - the difference of the two largest "
        "probabilities) or entropy (of the labels; of a sequence of the 10 most probable labellings).",
        default="confidence")
    is_diverse: bool = option("Leave out items whose features are similar (cosine above 0.8) to those of an item "
        "already chosen. This keeps all items of the input in memory.", "--diverse", default=False)
    to: str | None = option("Write the items with the predicted labels, in this format, as for `crfqn predict --to`: "
        "label-studio, doccano, ...")
    as_json: bool = option("Write one JSON object per line instead: the number of the item, from 0, its uncertainty "
        "and its text.", "--json", default=False)


@dataclass(frozen=True)
class PredictOptions:
    """The columns that `crfqn predict` writes, and how it chooses labels; None if an option was not given."""

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
    as_json: bool = option("Write one JSON object per line instead, with the labels and the values that other "
        "options request.", "--json",
        default=False)
    format: FormatOption = None
    dense: DenseOption = None
    to: str | None = option("Write the input with the predicted labels, in this format: conll, jsonl, csv, crfsuite, "
        "... In the format of the input only the labels change; other formats get a further column.")
    is_text: bool = option("The input is raw text, one item per line; models of words cut it into words and "
        "punctuation. Default: on if the model reads only words and the input looks like sentences.", "--text",
        default=False)
    encoding: EncodingOption = None
    max_item_length: int | None = option("The largest number of lines of a sequence, as it is in memory as a whole. "
        "Default: 1,000,000 for standard input and pipes, which may never end; unlimited for files.",
        min=1)

    @property
    def constraints(self) -> LabelConstraints:
        """The constraints on the labels."""
        return LabelConstraints(once=None if self.once is None else [*filter(None, self.once.split(","))])

    @property
    def labelling(self) -> dict[str, Any]:
        """The given constraints and threshold, as arguments of `predict` and `decode`."""
        least = {} if self.threshold is None else {"threshold": self.threshold}
        return self.constraints.arguments | least


# fmt: on
ThreadsOption = Annotated[Any, parameter_option("n_threads")]


class Command(TyperCommand):
    """A command that refuses a repeated option unless its values form a list, suggests a known option for an unknown
    one, and registers the files on the command line."""

    def make_context(self, *arguments: Any, **options: Any) -> Any:
        """Return the context of a command line; messages of usage errors are shortened as all messages are."""
        try:
            return super().make_context(*arguments, **options)
        except Exception as error:  # click's class has no public name in typer
            if hasattr(error, "message"):
                error.message = bounded(error.message)
            raise

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the command line; usage error for a repeated or an unknown option.

        Suggestions come from the names of other libraries and of Python, or from similar names.
        """
        try:
            texts, _, occurrences = self.make_parser(ctx).parse_args([*args])
        except Exception as error:
            if not hasattr(error, "possibilities"):
                raise
            name: str = getattr(error, "option_name", "")
            options = {p.name: p.opts[0] for p in self.get_params(ctx) if p.opts[0][:1] == "-"}
            key = name.lstrip("-").replace("-", "_")
            parameter, words = ARGUMENTS_ELSEWHERE.get(key) or NAMES_ELSEWHERE.get(key, (key, ""))
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
        named = [
            texts.get(name) or [] for name in INPUT_PARAMETERS if name != REPLACED_INPUTS.get(str(self.name))
        ]
        inputs = chain.from_iterable([each] if isinstance(each, str) else each for each in named)
        outputs = [ctx.params[name] for name in OUTPUT_PARAMETERS if ctx.params.get(name) is not None]
        command_files.named = [*inputs], outputs
        return remaining


def with_option_groups(function: Callable[..., int | None]) -> Callable[..., int | None]:
    """Return `function` with each parameter that is a dataclass replaced by its fields, which typer makes options.

    A dict parameter that is annotated by a dataclass receives the options by name.
    """
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
    def run(**options: Any) -> int | None:
        for name, group in groups.items():
            values = {rule.name: options.pop(rule.name) for rule in fields(group)}
            options[name] = group(**values) if signature.parameters[name].annotation is group else values
        return function(**options)

    run.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run
