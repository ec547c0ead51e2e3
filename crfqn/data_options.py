"""The table of data and features: each key of a recipe, with its default, its check, its meaning, and its option.

Beside `crfqn.parameters.PARAMETERS`, which has what an estimator takes. Recipes, their skeleton, the command line and
the manual are made of the two; nothing heavy is imported, as the command line loads this with every call.
"""

from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from crfqn.choices import BLANKS, CHUNKING, LOSSES, UNICODE
from crfqn.parameters import PARAMETERS, Parameter


@dataclass(frozen=True)
class Key:
    """A key's rule, its default (MISSING for none), and the kinds of features or structures that alone have it."""

    rule: Parameter
    default: Any
    of: tuple[str, ...]


def key(default: Any, description: str, kind: type | None = None, *, of: str = "", **limits: Any) -> Any:
    """Declare a key of a section, by default of the kind of `default` (text where it has none); `of`: the kinds of
    features or structure that have it, separated by blanks; `limits` as of `Parameter`."""
    if kind is None:
        kind = str if default is None or default is MISSING else type(default)
    return field(
        default=default,
        metadata={"key": Key(Parameter(description, kind, **limits), default, tuple(of.split()))},
    )


def parameter(name: str, default: Any = None, *, of: str = "", **changes: Any) -> Any:
    """Declare a key that is a parameter of the estimators; `changes` are those of its row in the table."""
    rule = replace(PARAMETERS[name], **changes)
    return field(default=default, metadata={"key": Key(rule, default, tuple(of.split()))})


def keys_in(cls: type, kind: str | None = None) -> dict[str, Key]:
    """Return the keys of a section by name, or those that it has for a kind of features or structure."""
    declared = {rule.name: rule.metadata["key"] for rule in fields(cls) if "key" in rule.metadata}
    return {name: key for name, key in declared.items() if kind is None or not key.of or kind in key.of}


# fmt: off
@dataclass(frozen=True)
class SplitSection:
    """Split of the items: a seeded `permutation`, its first `train` items for training, or the data's own (`given`)."""

    kind: str = key(MISSING, "given: the parts of the data set itself; permutation: `train` items of a seeded order",
        choices=("permutation", "given"))
    seed: int | None = key(None, "of the permutation", int, low=0)
    train: int | None = key(None, "items for training, of the permutation", int, low=1)


def _are_names(value: Any) -> bool:
    """Return whether a value names a file, or several."""
    names = value if isinstance(value, list) else [None]
    return isinstance(value, str) or all(isinstance(name, str) and name for name in names)


FILES: dict[str, Any] = {"kind": object, "accepts": _are_names, "expects": "text or a list of texts"}


@dataclass(frozen=True)
class DataSection:
    """Source of the data: a dataset of the registry, or training and test files beside the recipe.

    The files are in the `format` that is named (`readers/registry.py`), or that their names tell; else CRFsuite's text
    for `attributes`, columns for `windows` and `words`, svmlight's for `given`, `label TAB text` for `text`.
    """

    dataset: str = key("", "a name of `crfqn data list`, in the place of files")
    train: str | Sequence[str] = key("", "a file to train on, relative to this one; several: a list, a folder or a "
        "pattern", **FILES)
    test: str | Sequence[str] = key("", "a file to score the model on, or several; there need be none", **FILES)
    dev: str | Sequence[str] = key("", "a file that the training is stopped by, or several; [solver] has scoring and "
        "patience", **FILES)
    format: str = key("", "of the files; default: what their names tell, or the features need")
    label: str = key("", "column of the labels, of tables and CoNLL-U; default: label, tag, ... or upos")
    sentence: str = key("", "column of tables that tells the items apart; default: sentence, ... or blank lines")
    header: bool = key(True, "whether the first line of a table names the columns; else they are numbers from 1")
    drop: str = key("", "columns of a table that are left out, separated by commas; of features table")
    text: str = key("", "column of a table that has the texts; of features text; default: text")
    separator: str = key("", "between the columns of CoNLL's files; default: tabs where all lines have as many, else "
        "blanks")
    encoding: str = key("utf-8", "of the files; bytes: UTF-8 with other bytes between, as they are")
    split: SplitSection = SplitSection("given")
    tokens: Any = None  # no key: the tokenizer that cuts raw text for the recipe's model

    def names(self, part: str) -> list[str]:
        """Return the names of the files for "train", "test" or "dev", as they are given."""
        names = getattr(self, part)
        return [names] * bool(names) if isinstance(names, str) else list(names)


@dataclass(frozen=True)
class FeaturesSection:
    """Features of the observations; every kind has keys of its own.

    `pixel-pairs`: see `crfqn.data.pixels.PixelPairs`. `attributes`: the data names its own. `windows`: templates
    over the columns of the data, see `crfqn.data.templates.windows`. `templates`: `templates` names a pattern
    file of CRF++ or Wapiti beside the recipe, `shapes` columns whose forms are features (`crfqn.Templates`). `words`:
    the word (the first column) with its beginning, its end and its shape, the words around it, and the other columns
    with their neighbours, see `crfqn.data.templates.windows`. `given`: the numbers of the data, if need be each
    feature divided by its largest size in the training part (`max-abs`). `text`: counts of words, see
    `crfqn.model.texts.Words`. `table`: columns of numbers and of texts, see
    `crfqn.model.tables.Table`.
    """

    kind: str = key(MISSING, "how observations become numbers",
        choices=("pixel-pairs", "attributes", "windows", "templates", "words", "given", "text", "table"))
    threshold: float = key(1.0, "grey values from here on are on", of="pixel-pairs")
    bias: bool = key(True, "one feature more, which is always on", of="pixel-pairs")
    columns: str = key("", "names of the columns before the label; default: those of the file, w pos of windows",
        of="windows templates words")
    templates: str = key(CHUNKING, "features of the columns: w[-1] is the word before, w[-1]|w[0] the pair",
        of="windows templates")
    ends: bool = key(True, "whether places beyond the ends of an item have a value of their own", of="windows")
    shapes: str = key("", "columns whose forms are features: prefixes, suffixes, shape, ...", of="templates")
    transitions: bool = key(False, "whether neighbouring labels have weights also if the pattern file has no `B`",
        of="templates")
    min_count: int = key(1, "leave out features at fewer positions", low=1, of="templates words")
    n_hashed: int | None = key(None, "so many columns for all features, by hashing, without names", int, low=1,
        of="templates words")
    scale: str = key("none", "max-abs divides each feature by its largest size in the training part",
        choices=("none", "max-abs"), of="given")
    weighting: str = key("tf-idf", "what a word in a text counts", choices=("tf-idf", "count", "binary"), of="text")
    words: str = key("unicode", "how texts are cut into words: by the rules of Unicode, or at blanks, where they are "
        "cut already", choices=(UNICODE, BLANKS), of="text")
    norm: str = key("l2", "l2 makes all texts equally long", choices=("l2", "none"), of="text")
    min_df: int = key(1, "leave out words of fewer texts", low=1, of="text")
    sublinear_tf: bool = key(False, "1 + log(count) in the place of counts", of="text")

    @property
    def column_names(self) -> list[str]:
        """Names of the columns that are read, without the label; [] for all that the data have."""
        return (self.columns or ("w pos" if self.kind == "windows" else "")).split()


FEATURES_OF = {
    "chain": ("pixel-pairs", "attributes", "windows", "templates", "words"),
    **dict.fromkeys(("taxonomy", "flat", "ranking"), ("given", "text", "table")),
}


@dataclass(frozen=True)
class StructureSection:
    """Structure of the labels: `chain` (a label a position), `taxonomy` and `flat` (one a document), or `ranking`
    (several, separated by commas). For data of one's own, `taxonomy` names a file beside the recipe
    (`read_taxonomy_file`), or else labels are paths, their parts separated by `separator`."""

    kind: str = key("chain", "how labels hang together", choices=(*FEATURES_OF,))
    labels: str = parameter("labels", "leaves", of="taxonomy")
    taxonomy: str | None = key(None, "a file with the tree; without it labels are paths in it", of="taxonomy")
    separator: str | None = key(None, "between the parts of such a path; default: /", of="taxonomy")


STRENGTHS = ("l1", "l2", "group_l1")
OF_ITEMS = "taxonomy flat ranking"


def _are_factors_or_file(value: Any) -> bool:
    return isinstance(value, (str, Mapping))


@dataclass(frozen=True)
class ObjectiveSection:
    """Objective of the training: loss and penalty, which weights a chain may have, intercepts and weights of classes.

    Strengths that are not given are those that the estimator has by default; l1 and group_l1 may be "auto".
    """

    l1: float | str | None = parameter("l1")
    l2: float | None = parameter("l2", words=())
    group_l1: float | str | None = parameter("group_l1")
    penalty_factors: str | Mapping[str, float] | None = parameter("penalty_factors", accepts=_are_factors_or_file,
        expects="a section of names and factors, or the name of a file of these")
    loss: str = parameter("loss", "logistic", of="chain taxonomy flat", choices=(*LOSSES,))
    penalty: str | None = parameter("penalty", of="flat ranking")
    threshold: str = parameter("threshold", "item", of="ranking")
    group_norm: str = parameter("group_norm", "l2", of="chain taxonomy")
    all_possible_states: bool = parameter("all_possible_states", True, of="chain")
    all_possible_transitions: bool = parameter("all_possible_transitions", True, of="chain")
    fit_intercept: bool = parameter("fit_intercept", False, of=OF_ITEMS)
    penalize_intercept: bool = parameter("penalize_intercept", False, of=OF_ITEMS)
    class_weight: str = parameter("class_weight", "none", of=OF_ITEMS, kind=str, choices=("none", "balanced"))


@dataclass(frozen=True)
class SolverSection:
    """Solver and when it stops; keys beyond these (`settings`) are parameters of the estimator, which checks them, and
    a table `settings` of the solver's own."""

    name: str = parameter("solver", "auto", kind=str)
    tol: float | str = parameter("tol", "auto", low=None, above=0.0)
    stop: str = parameter("stop", "estimate")
    max_iter: int = parameter("max_iter", 500)
    settings: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class OutputSection:
    """File to which `crfqn train` saves the model, relative to the working folder; empty: `<name>.crfqn`."""

    path: str = key("", "the model file; default: NAME.crfqn")


# fmt: on
SECTIONS: dict[str, type] = {
    "data": DataSection,
    "features": FeaturesSection,
    "structure": StructureSection,
    "objective": ObjectiveSection,
    "solver": SolverSection,
    "output": OutputSection,
}


@dataclass(frozen=True)
class Option:
    """A key as an option of the command line: its section ("" for none) and name, its heading in the help, and its help
    ("": that of the parameter of the estimators with this name, and `more`). `takes_several`: it may be given again;
    `is_number`: no word may stand for the number; `kind`: the type of one that is no key."""

    section: str
    key: str
    panel: str | None
    help: str
    more: str = ""
    takes_several: bool = False
    is_number: bool = False
    kind: type = str


SOURCE = "command line"  # in messages, the file of a recipe that options make
FORMAT = (
    "Of the files: conll, conll2003, conllu, crfsuite, svmlight, jsonl, csv, tsv, parquet, text, ...; default: what "
    "their names tell."
)
# Options by name, in the order of the help.
DATA_OPTIONS: dict[str, Option] = {
    "data": Option("data", "train", None,
        "A file to train on, in the place of a recipe; - is standard input. Several files are one set: --data again, "
        "a folder, or a pattern in quotes.", takes_several=True),
    "test": Option("data", "test", None,
        "A file to score the model on, with --data; several as of --data.", takes_several=True),
    "format": Option("data", "format", "Data", FORMAT),
    "structure": Option("structure", "kind", None,
        "What the labels are, with --data: chain, flat, taxonomy or ranking; default: by format."),
    "label": Option("data", "label", None,
        "The column of labels of a table, by its name or its number from 1, or CoNLL-U's field (xpos, misc:NER), "
        "with --data; default: label, tag, ..., where rows are items class, target or the last one; upos."),
    "drop": Option("data", "drop", "Data",
        "Columns of a table that are left out, with --data: A,B by names or numbers.", takes_several=True),
    "header": Option("data", "header", "Data",
        "Whether the first line of a table names its columns, with --data; default: unless a cell of it is a number, "
        "is empty, or comes again beside or below it."),
    "taxonomy": Option("structure", "taxonomy", "Data",
        "A file with the tree of the labels, with --data: `parent child` a line; without it labels are paths a/b/c."),
    "labels": Option("structure", "labels", "Data", "", ", of a taxonomy"),
    "separator": Option("structure", "separator", "Data", "", " in a taxonomy; /"),
    "encoding": Option("data", "encoding", "Data",
        "Of the files, with --data: utf-8 (default), latin-1, utf-16, cp1252, ..., or bytes: UTF-8 with other bytes "
        "between, which are kept as they are. The model remembers it."),
    "sentence": Option("data", "sentence", "Data",
        "The column of a table that tells the items apart, with --data; or blank lines do."),
    "columns": Option("features", "columns", "Data", 'Names of the columns before the label, with --data: "w pos".'),
    "features": Option("features", "kind", None,
        "How observations become numbers, with --data: words (default of sequences: word forms, other columns, "
        "neighbours), windows (--templates), templates (--templates FILE), attributes, text, given, table (default "
        "of tables without texts: numbers as they are, each text of another column a feature)."),
    "words": Option("features", "words", "Features",
        "How texts are cut into words, with --data: unicode (default), or blanks where that has been done."),
    "templates": Option("features", "templates", "Features",
        'Features of the columns, with --data: "w[-1] w[0] w[1] w[-1]|w[0]".'),
    "transitions": Option("features", "transitions", "Features",
        "Weights of neighbouring labels also if a pattern file has no `B`, with --data."),
    "min_count": Option("features", "min_count", "Features", "Leave out features at fewer positions, with --data."),
    "hashed": Option("features", "n_hashed", "Features",
        "So many columns for all features, by hashing, with --data: less memory, no names."),
}  # fmt: skip
DEV_PANEL = "Start, and score on --dev"
# Those of `crfqn train` alone.
DEV_OPTIONS: dict[str, Option] = {
    "start": Option("", "start", DEV_PANEL,
        "Go on from the weights of this model file, crfqn's or another tool's, of the labels and features (by name) in "
        "common; others start from zero.", kind=Path),
    "dev": Option("data", "dev", None,
        "A labelled file in the format of the training data: the model has the weights that score best on it, "
        "and the training stops when they get no better.", takes_several=True),
    "metric": Option("", "scoring", DEV_PANEL,
        "The score of --dev: accuracy (default), f1 (of chunks; of documents the macro mean), "
        "sequence_accuracy, span_f1:IOB2, hierarchical_f1, ..."),
    "patience": Option("", "patience", DEV_PANEL, "", "; 10"),
}  # fmt: skip
