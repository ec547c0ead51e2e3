"""The keys of recipes, each with its default, check, meaning and option of the command line.

Together with the parameters of estimators in `crfqn.parameters.PARAMETERS` they define recipes, their skeleton, the
command line and tables of the manual. Every call of `crfqn` imports this module, so it imports nothing heavy.
"""

from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from crfqn.choices import (
    ANALYZERS,
    AUTO_TOKENIZER,
    BLANK_RULES,
    CHUNKING_TEMPLATES,
    LOSSES,
    MISALIGNED_RULES,
    TOKENIZER_NAMES,
    UNICODE_RULES,
    WORD_NGRAMS,
)
from crfqn.parameters import PARAMETERS, Parameter


@dataclass(frozen=True)
class Key:
    """A key's rule, its default (MISSING for none), and the kinds of features or structures with this key, () for
    all."""

    rule: Parameter
    default: object
    of: tuple[str, ...]


def key(default: object, description: str, kind: type | None = None, *, of: str = "", **limits: Any) -> Any:
    """Declare a key of a section.

    kind : by default the type of `default`, str if there is none
    of : the kinds of features or structure with this key, separated by blanks; "" for all
    limits : further fields of `Parameter`
    """
    if kind is None:
        kind = str if default is None or default is MISSING else type(default)
    return field(
        default=default,
        metadata={"key": Key(Parameter(description, kind, **limits), default, tuple(of.split()))},
    )


def parameter(name: str, default: object = None, *, of: str = "", **changes: Any) -> Any:
    """Declare a key that is a parameter of the estimators; `changes` replace fields of its `Parameter`."""
    rule = replace(PARAMETERS[name], **changes)
    return field(default=default, metadata={"key": Key(rule, default, tuple(of.split()))})


def keys_in(cls: type, kind: str | None = None) -> dict[str, Key]:
    """Return the keys of a section by name, all or those for a kind of features or structure."""
    declared = {rule.name: rule.metadata["key"] for rule in fields(cls) if "key" in rule.metadata}
    return {name: key for name, key in declared.items() if kind is None or not key.of or kind in key.of}


# fmt: off
@dataclass(frozen=True)
class SplitSection:
    """Split of the items: the first `train` items of a seeded `permutation` are for training, or the split is
    `given`."""

    kind: str = key(MISSING, "given: the split of the data set; permutation: `train` items of a seeded order",
        choices=("permutation", "given"))
    seed: int | None = key(None, "seed of the permutation", int, low=0)
    train: int | None = key(None, "number of items of the permutation for training", int, low=1)


def _are_names(value: object) -> bool:
    """Return whether a value is the name of a file, or a list of names."""
    names = value if isinstance(value, list) else [None]
    return isinstance(value, str) or all(isinstance(name, str) and name for name in names)


def _is_range(value: object) -> bool:
    """Return whether a value is two integers >= 1 in order."""
    if not isinstance(value, (list, tuple)) or [*map(type, value)] != [int, int]:
        return False
    return 1 <= value[0] <= value[1]


def _is_frequency(value: object) -> bool:
    """Return whether a value is an integer >= 1 or a fraction from 0.0 to 1.0."""
    return value >= 1 if type(value) is int else isinstance(value, float) and 0 <= value <= 1


# A document frequency, as in scikit-learn's TfidfVectorizer.
FREQUENCY: dict[str, Any] = {
    "kind": object,
    "accepts": _is_frequency,
    "expects": "integer >= 1, or a fraction of the texts from 0.0 to 1.0",
}
AUTO_NGRAMS = "auto"  # the analyzer and the range of n-grams are chosen on held-out texts
FILE_NAMES: dict[str, Any] = {"kind": object, "accepts": _are_names, "expects": "text or a list of texts"}
LISTED_TEXTS: dict[str, Any] = {
    "kind": object,
    "accepts": lambda value: isinstance(value, (list, tuple)) and all(type(text) is str for text in value),
    "expects": "a list of texts",
}


@dataclass(frozen=True)
class DataSection:
    """Source of the data: a registered dataset, or training and test files relative to the recipe.

    `format` (`readers/registry.py`) is by default that of the files' names, otherwise CRFsuite's text for `attributes`,
    columns for `windows` and `words`, svmlight's for `given`, `label TAB text` for `text`.
    """

    dataset: str = key("", "a name of `crfqn data list`, instead of files")
    train: str | Sequence[str] = key("", "a file to train on, relative to this one; for several a list, a folder or "
        "a pattern", **FILE_NAMES)
    test: str | Sequence[str] = key("", "a file to score the model on, or several; optional", **FILE_NAMES)
    dev: str | Sequence[str] = key("", "a file, or several, whose score stops the training; [solver] has scoring and "
        "patience", **FILE_NAMES)
    format: str = key("", "format of the files; default: by their names, or by the features")
    label: str = key("", "column with the labels, in tables and CoNLL-U, key of JSON objects, or attributes of XML's "
        "elements; default: label, tag, ...; upos; label or labels")
    sentence: str = key("", "column of a table with a number or name for each sequence, or name of the items' elements "
        "in XML (bibl); default: sentence, ..., or blank lines separate sequences; the elements below the root")
    sheet: str = key("", "sheet of an Excel workbook; default: the first one")
    missing: str | None = key(None, "label that means an unknown one, such as _ (and empty or null ones): unknown "
        "positions of sequences are trained on, other items left out; default: all need a label", str)
    label_names: Sequence[str] | None = key(None, "names of labels that are numbers, from 0; default: those in the "
        "metadata of Parquet", **LISTED_TEXTS)
    outside: str = key("", "label of words outside of labelled elements in XML, such as O; default: all have to be in "
        "one")
    header: bool = key(True, "whether the first line of a table names the columns; else they are numbers from 1")
    drop: str = key("", "columns of a table to leave out, separated by commas; for the features table")
    text: str = key("", "column of a table, or key of JSON objects, with the texts, for the features text; default: "
        "text")
    separator: str = key("", "separator of the columns of CoNLL's files; default: tabs if all lines have the same "
        "number of them, else blanks")
    comment: str | None = key(None, "lines of columns that begin with this text are comments; an empty text: there are "
        "none; default: those before an item that begin with # and a blank, if the file shows that they are no tokens",
        str)
    encoding: str = key("utf-8", "encoding of the files: utf-8 (default), latin-1, utf-16, cp1252, ..., or bytes: "
        "UTF-8 with other bytes kept as they are; the model remembers it")
    tokenizer: str | tuple[object, ...] = key(AUTO_TOKENIZER, "tokenizer of texts with spans, which the model keeps; "
        "auto is the one of unicode and penn that cuts fewer of the spans", choices=(AUTO_TOKENIZER, *TOKENIZER_NAMES))
    on_misaligned: str = key("error", "what to do with spans that begin or end within a token; expand takes whole "
        "tokens", choices=MISALIGNED_RULES)
    split: SplitSection = SplitSection("given")
    reads_spans: bool | None = None  # not a key: False if the spans of texts are not read

    def names(self, part: str) -> list[str]:
        """Return the names of the files for "train", "test" or "dev"."""
        names = getattr(self, part)
        return [names] * bool(names) if isinstance(names, str) else list(names)


@dataclass(frozen=True)
class FeaturesSection:
    """Features of the observations; each kind has different keys.

    `pixel-pairs`: see `crfqn.data.pixels.PixelPairs`. `attributes`: features that the data lists. `windows`: templates
    over the columns of the data, see `crfqn.data.templates.windows`. `templates`: `templates` names a pattern file of
    CRF++ or Wapiti, relative to the recipe, and `shapes` columns whose forms are features (`crfqn.Templates`). `words`:
    the word (the first column) with its prefix, suffix and shape, the words around it, and the other columns with their
    neighbours, see `crfqn.data.templates.windows`. `given`: the numbers of the data, optionally with each feature
    divided by its largest absolute value in the training part (`max-abs`). `text`: counts of words or other
    n-grams, see `crfqn.model.texts.Words`. `table`: columns of numbers and of texts, see
    `crfqn.model.tables.Table`.
    """

    kind: str = key(MISSING, "kind of features",
        choices=("pixel-pairs", "attributes", "windows", "templates", "words", "given", "text", "table"))
    threshold: float = key(1.0, "minimum grey value of a pixel that counts as on", of="pixel-pairs")
    bias: bool = key(True, "whether to add a feature that is always on", of="pixel-pairs")
    columns: str = key("", "names of the columns before the label, such as w pos; default: those of the file, w pos "
        "for windows", of="windows templates words")
    templates: str = key(CHUNKING_TEMPLATES, "features of the columns: w[-1] is the word before, w[-1]|w[0] the pair",
        of="windows templates")
    ends: bool = key(True, "whether positions beyond the ends of an item are features", of="windows")
    shapes: str = key("", "columns whose forms are features: prefixes, suffixes, shape, ...", of="templates")
    transitions: bool = key(False, "whether pairs of neighbouring labels have weights even if the pattern file has "
        "no `B`", of="templates")
    min_count: int = key(1, "leave out features that occur at fewer positions than this", low=1,
        of="attributes templates words")
    n_hashed: int | None = key(None, "number of columns that the features are hashed into: less memory, no names", int,
        low=1, of="templates words")
    gazetteers: Sequence[str] = key((), "file of names, one a line, again for others: whether a word begins a name or "
        "is in it is a feature; the model keeps the names", **LISTED_TEXTS, of="templates words")
    scale: str = key("none", "max-abs divides each feature by its largest absolute value in the training part",
        choices=("none", "max-abs"), of="given")
    analyzer: str = key(WORD_NGRAMS, "n-grams of words, of characters, or (char_wb) of the characters of each word; "
        "auto chooses them and their lengths on held-out texts", choices=(*ANALYZERS, AUTO_NGRAMS), of="text")
    ngram_range: Sequence[int] = key((1, 1), "smallest and largest length of n-grams; default: 1,1", object,
        accepts=_is_range, expects="two integers >= 1 in order, such as 1,2", of="text")
    weighting: str = key("tf-idf", "value of an n-gram in a text", choices=("tf-idf", "count", "binary"), of="text")
    words: str = key("unicode", "how texts are split into words, by the rules of Unicode or, if they are tokenized, at "
        "blanks", choices=(UNICODE_RULES, BLANK_RULES), of="text")
    norm: str = key("l2", "l2 scales each text to length 1", choices=("l2", "none"), of="text")
    min_df: int | float = key(1, "leave out n-grams that occur in fewer texts than this, a number or a fraction",
        **FREQUENCY, of="text")
    max_df: int | float = key(1.0, "leave out n-grams that occur in more texts than this, a number or a fraction",
        **FREQUENCY, of="text")
    sublinear_tf: bool = key(False, "replace counts of n-grams by 1 + log(count)", of="text")

    def __post_init__(self) -> None:
        for name in ("ngram_range", "gazetteers"):  # TOML has lists
            object.__setattr__(self, name, tuple(getattr(self, name)))

    @property
    def column_names(self) -> list[str]:
        """Names of the columns that are read, without the label; [] for all columns of the data."""
        return (self.columns or ("w pos" if self.kind == "windows" else "")).split()


OF_TEMPLATES = ("templates", "words")  # kinds of features that the model computes from columns
OF_COLUMNS = ("windows", *OF_TEMPLATES)
FEATURES_OF = {
    "chain": ("pixel-pairs", "attributes", *OF_COLUMNS),
    **dict.fromkeys(("taxonomy", "flat", "ranking"), ("given", "text", "table")),
}


@dataclass(frozen=True)
class StructureSection:
    """Structure of the labels: `chain` (a label per position), `taxonomy` and `flat` (a label per document), or
    `ranking` (several labels per document, separated by commas).

    For files, `taxonomy` names a file with the tree, relative to the recipe (`read_taxonomy_file`); otherwise labels
    are paths whose parts are separated by `separator`.
    """

    kind: str = key("chain", "structure of the labels", choices=(*FEATURES_OF,))
    labels: str = parameter("labels", "leaves", of="taxonomy")
    taxonomy: str | None = key(None, "a file with the tree; without it labels are paths in it", of="taxonomy")
    separator: str | None = key(None, "separator of the parts of labels that are paths; default: /", of="taxonomy")


OF_ITEMS = "taxonomy flat ranking"


@dataclass(frozen=True)
class ObjectiveSection:
    """Objective of the training: loss and penalty, the weights that a chain may have, intercepts and class weights.

    Strengths that are not given have the defaults of the estimator; l1 and group_l1 may be "auto".
    """

    l1: float | str | None = parameter("l1")
    l2: float | None = parameter("l2", words=())
    group_l1: float | str | None = parameter("group_l1")
    penalty_factors: str | Mapping[str, float] | None = parameter("penalty_factors",
        accepts=lambda value: isinstance(value, (str, Mapping)),
        expects="a section of names and factors, or the name of a file of these")
    loss: str = parameter("loss", "logistic", of="chain taxonomy flat", choices=(*LOSSES,))
    penalty: str | None = parameter("penalty", of="flat ranking")
    threshold: str = parameter("threshold", "item", of="ranking")
    group_norm: str = parameter("group_norm", "l2", of="chain taxonomy")
    all_possible_states: bool = parameter("all_possible_states", True, of="chain")
    all_possible_transitions: bool = parameter("all_possible_transitions", True, of="chain")
    fit_intercept: bool = parameter("fit_intercept", False, of=OF_ITEMS)
    penalize_intercept: bool = parameter("penalize_intercept", False, of=OF_ITEMS)
    class_weight: str | Mapping[str, float] = parameter("class_weight", "none", 
        accepts=lambda value: isinstance(value, Mapping) or value in ("none", "balanced"),
        expects='"none", "balanced" or a section of labels and weights')


@dataclass(frozen=True)
class SolverSection:
    """Solver and stopping rules; `settings` has all other keys, parameters of the estimator and a table `settings` with
    those of the solver."""

    name: str = parameter("solver", "auto", kind=str)
    tol: float | str = parameter("tol", "auto", low=None, above=0.0)
    stop: str = parameter("stop", "estimate")
    max_iter: int = parameter("max_iter", 500)
    settings: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class OutputSection:
    """File to which `crfqn train` saves the model, relative to the working folder; `<name>.crfqn` if empty."""

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
    """An option of the command line.

    section, key : the key of recipes that it sets; section "" for none
    panel : the heading in the help
    help : its help, "" for the description of the key or of the estimators' parameter, followed by `more`
    takes_several : whether it may be given several times
    is_number : whether words such as auto are refused
    kind : the type of an option that is not a key
    """

    section: str
    key: str
    panel: str | None
    help: str = ""
    more: str = ""
    takes_several: bool = False
    is_number: bool = False
    kind: type = str


COMMAND_LINE = "command line"  # the file name, in messages, of a recipe made from options
FORMAT_HELP = (
    "The format of the files: conll, conll2003, conllu, crfsuite, svmlight, jsonl, csv, tsv, parquet, text, ...; "
    "default: by their names."
)
DATA_PANEL, FEATURES_PANEL = "Data, with --data", "Features, with --data"
# Options by name, in the order of the help.
DATA_OPTIONS: dict[str, Option] = {
    "data": Option("data", "train", None,
        "A file to train on, instead of a recipe; - is standard input. Several files (--data again, a folder, or a "
        "pattern in quotes) are read as one data set.", takes_several=True),
    "test": Option("data", "test", None,
        "A file to score the model on, with --data; several files as for --data.", takes_several=True),
    "format": Option("data", "format", DATA_PANEL, FORMAT_HELP),
    "structure": Option("structure", "kind", None,
        "The structure of the labels, with --data: chain, flat, taxonomy or ranking; default: by the format."),
    "label": Option("data", "label", None,
        "The column with the labels, with --data: the name or number (from 1) of a table's column, a key of JSON "
        "objects (tokens.tag: of their tokens), a field of CoNLL-U (xpos, misc:NER), or attributes in XML whose values "
        "belong to labels. Default: label, tag, ...; if rows are items also class, target or the last column; label, "
        "labels, tags, ner_tags or pos_tags; upos."),
    "drop": Option("data", "drop", DATA_PANEL,
        "Columns of a table to leave out: names or numbers, as A,B.", takes_several=True),
    "header": Option("data", "header", DATA_PANEL,
        "Whether the first line of a table has the names of the columns. Default: yes, unless one of its "
        "cells is a number, is empty, or occurs again in its row or column."),
    "taxonomy": Option("structure", "taxonomy", DATA_PANEL,
        "A file with the tree of the labels: a line `parent child` for each edge. Without it labels are "
        "paths like a/b/c."),
    "labels": Option("structure", "labels", DATA_PANEL, more=", of a taxonomy"),
    "separator": Option("structure", "separator", DATA_PANEL),
    **{name: Option("data", name, DATA_PANEL) for name in (
        "comment", "encoding", "sentence", "sheet", "tokenizer", "on_misaligned", "missing", "outside")},
    "label_names": Option("data", "label_names", DATA_PANEL,
        "The names of labels that are numbers from 0: O,B-PER,I-PER, or a file with a name a line. "
        "Default: the names in a Parquet file of Hugging Face's datasets, else the numbers.", takes_several=True),
    "columns": Option("features", "columns", DATA_PANEL),
    "features": Option("features", "kind", None,
        "The kind of features, with --data: words (default for sequences: word forms, other columns, neighbours), "
        "windows (--templates), templates (--templates FILE), attributes, text, given, table (default for tables "
        "without texts: numbers as they are, each distinct text of another column as a feature)."),
    **{name: Option("features", name, FEATURES_PANEL) for name in (
        "words", "analyzer", "ngram_range", "min_df", "max_df", "sublinear_tf", "weighting", "templates", "transitions",
        "min_count")},
    "hashed": Option("features", "n_hashed", FEATURES_PANEL),
    "gazetteer": Option("features", "gazetteers", FEATURES_PANEL, takes_several=True),
}  # fmt: skip
DEV_PANEL = "Start, and score on --dev"
# Options of `crfqn train` only.
DEV_OPTIONS: dict[str, Option] = {
    "start": Option("", "start", DEV_PANEL,
        "Start from the weights of this model file, of crfqn or another tool, for the labels and features (by name) "
        "in both; other weights start from zero.", kind=Path),
    "dev": Option("data", "dev", None,
        "A labelled file in the format of the training data. The training stops when the score on it no longer "
        "improves, and the model has the weights with the best score.", takes_several=True),
    "metric": Option("", "scoring", DEV_PANEL,
        "The score of --dev: accuracy (default), f1 (of chunks; of documents the macro mean), "
        "sequence_accuracy, span_f1:IOB2, hierarchical_f1, ..."),
    "patience": Option("", "patience", DEV_PANEL, "", "; 10"),
}  # fmt: skip
