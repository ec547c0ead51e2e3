"""Data that a recipe names: datasets, its own files and new ones for its model; how the items are cut; what it gives.

A file is read in the format which the recipe says, else what the file's name tells, else that of the kind of features.
A new file has the format that its name tells, else one that the model reads and that its first lines look like, else
the training file's.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from glob import glob, has_magic
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from crfqn.data.files import STANDARD_INPUT, check_regular, shown_name
from crfqn.data.token_columns import TokenColumns
from crfqn.datasets import Dataset, dataset
from crfqn.errors import DataError, DataUnavailableError, InputError, RecipeError, RepeatedFileWarning
from crfqn.readers import conll
from crfqn.readers import registry as formats
from crfqn.readers.items import Documents, Labeled, append_test, concatenate
from crfqn.readers.sniffing import are_sentences, end_with, first_lines, sniff, word_rows
from crfqn.readers.tables import DELIMITERS, TEXTS, titles
from crfqn.recipes.schema import Recipe

if TYPE_CHECKING:
    from crfqn.model.featurizers import Featurizer
    from crfqn.taxonomy.tree import LabelTree

EMBEDDED = "digits"
EMBEDDED_DOCUMENTS = "stdlib"
OF_FEATURES = {
    "windows": "conll",
    "templates": "conll",
    "words": "conll",
    "text": "text",
    "given": "svmlight",
    "table": "csv",
}
TABLES = ("csv", "tsv", "parquet")
OF_NEW = {
    "attributes": ("jsonl", "crfsuite"),
    "text": ("jsonl", *TABLES),
    "given": ("svmlight",),
    "table": TABLES,
}  # formats of new files besides that of the features
ONLY_WORDS = ("form",)  # of CoNLL-U: lemmas and tags are what a tagger is to find


Origin = str | Path | list[str | Path] | None  # of new items: a file, several, or the recipe's own test part


@dataclass(frozen=True)
class Observed:
    """Featurizer of new items as `predict` takes them, and labels: lists for sequences, "" if unknown, None if all are,
    whole numbers where the file's labels are numbers (`Documents.targets`).
    `data` are the items as read; `texts` how positions read: a list of str an item, the first column of data with
    columns; of documents their texts, or the cells of rows."""

    X: Any
    y: list[Any] | None
    data: Any = None
    texts: Sequence[Any] | None = None


@dataclass
class Prepared:
    """Data of a recipe, cut into training and test items and mapped to features.

    X_train, X_test : `Sequences` of pixels and windows, lists of lists of dicts of attributes, csr_array of documents
    y_train, y_test : a list of labels for each sequence, or a label (ranking: a list of labels) for each document
    feature_names : None where X names its features itself
    fingerprint : SHA-256 over all labels and observations (hex), the same for every format of the file
    taxonomy, features : of documents; sample_weight : of the training items, where their file gives any
    is_sharded : whether X_train are `crfqn.Shards`, which bring their labels; nothing else is known of them
    is_inferred : whether the taxonomy is that of the training labels; those of the test part need not be nodes of it
    """

    X_train: Any
    y_train: list[Any]
    X_test: Any
    y_test: list[Any]
    feature_names: Sequence[str] | None
    fingerprint: str
    taxonomy: LabelTree | None = None
    features: Featurizer | None = None
    is_inferred: bool = False
    sample_weight: list[float] | None = None
    is_sharded: bool = False

    @property
    def given_taxonomy(self) -> LabelTree | None:
        """Taxonomy to give to the estimator; None where it infers the taxonomy from the labels itself."""
        return None if self.is_inferred else self.taxonomy

    def take_train(self) -> Any:
        """Return X_train and let go of it: a training then holds it only until its own store is built."""
        taken, self.X_train = self.X_train, None
        return taken


def load_dataset(recipe: Recipe) -> Labeled | Documents:
    """Return the recipe's dataset; RecipeError for sequences where documents are needed or the other way."""
    is_chain = recipe.structure.kind == "chain"
    try:
        data = find_dataset(recipe).load()
    except DataUnavailableError as error:
        name = EMBEDDED if is_chain else EMBEDDED_DOCUMENTS
        raise DataUnavailableError(
            f"{error}\nWithout any download: `crfqn train models/{name}` trains on data that is built in."
        ) from error
    if isinstance(data, Labeled) != is_chain:
        has, fitting = (
            ("single items", '"taxonomy", "flat" or "ranking"') if is_chain else ("sequences", '"chain"')
        )
        raise RecipeError(
            f'{recipe.source}: [structure] kind = "{recipe.structure.kind}": the dataset '
            f"{recipe.data.dataset!r} has {has}; use {fitting}"
        )
    return data


@contextmanager
def own_files() -> Iterator[None]:
    """Turn DataUnavailableError into DataError: a missing file that the user named is a mistake, no data to fetch."""
    try:
        yield
    except DataUnavailableError as error:
        raise DataError(str(error)) from error


def own_file(path: Path) -> Path:
    """Return the path of a file that a recipe names; DataError for a pipe or device, as it is read as a whole, and
    twice where a message needs its line."""
    check_regular(path)
    return path


def find_dataset(recipe: Recipe) -> Dataset:
    """Return the registry's entry of the recipe's dataset; RecipeError if there is none."""
    try:
        return dataset(recipe.data.dataset)
    except DataError as error:
        raise RecipeError(f"{recipe.source}: [data] dataset: {error}") from error


def split(recipe: Recipe, n_items: int, n_given: int | None) -> tuple[np.ndarray, np.ndarray]:
    """Return the numbers of the training and test items, ascending or in the order of a permutation; the split `given`
    takes for training the first `n_given`, which the data brings."""
    cut = recipe.data.split
    if cut.kind == "given":
        if n_given is None:
            raise RecipeError(
                f"{recipe.source}: [data.split] the dataset {recipe.data.dataset!r} brings no split "
                f'of its own; use kind = "permutation" with seed and train'
            )
        order, n_train = np.arange(n_items), n_given
    else:
        assert cut.train is not None  # the schema saw to it
        order, n_train = np.random.RandomState(cut.seed).permutation(n_items), cut.train
        if n_train >= n_items:
            raise RecipeError(
                f"{recipe.source}: [data.split] train = {n_train}: expected 1 to {n_items - 1}, since the "
                f"data has {n_items} items and some must be left for the test"
            )
    return order[:n_train], order[n_train:]


def format_of(recipe: Recipe, path: str | Path = "") -> str:
    """Return the name of the format of a recipe's file, which its name tells, or that of the first training file."""
    told = recipe.data.format or told_format(path) or told_format(*recipe.data.names("train")[:1])
    return told or OF_FEATURES.get(recipe.features.kind, "crfsuite")


def format_of_new(
    recipe: Recipe,
    path: str | Path,
    lines: Sequence[str],
    columns: Sequence[str] | None,
    labels: Collection[str],
) -> str:
    """Return the format of a file for the recipe's model, of `columns` and `labels`, by its name or first lines; named
    as the training file, it has its, whatever it tells."""
    told, own = told_format(path), format_of(recipe)
    if told is not None:
        return own if told == told_format(*recipe.data.names("train")[:1]) else told
    kind = recipe.features.kind
    if columns is not None and kind != "table":
        return format_of_columns(lines, columns, labels, own)
    found = sniff(lines, OF_NEW[kind])
    if kind == "text" and recipe.data.header and found in DELIMITERS:
        is_titled = {*TEXTS, recipe.data.text} & {*titles(lines, DELIMITERS[found])}
        found = found if is_titled else None
    return found or (own if kind == "table" or not lines else OF_FEATURES.get(kind, own))


def format_of_columns(lines: Sequence[str], columns: Sequence[str], labels: Collection[str], own: str) -> str:
    """Return the format of lines for a model that reads `columns` and has `labels`; `own` is the training file's."""
    found = sniff(lines, ("jsonl", "conllu", *TABLES))
    is_table = found in DELIMITERS and {*columns} <= {*titles(lines, DELIMITERS[found])}
    if found is not None and (found not in DELIMITERS or is_table):
        return found
    if len(columns) == 1 and are_sentences(lines, labels):
        return "raw"
    return own if lines == [] or own in conll.STYLES else "conll"


def separator_of_new(
    recipe: Recipe, lines: Sequence[str], columns: Sequence[str] | None, labels: Collection[str] = ()
) -> str:
    """Return what parts the columns of another file than the training's: tabs where all lines have the right number of
    them; blanks in the place of tabs, unless it has words alone, some of them with blanks in them."""
    if conll.splits_at_tabs(lines, columns):
        return conll.TAB
    rows = word_rows(lines)
    is_of_words = len(columns or ()) == 1 and len({*map(len, rows)}) > 1 and not end_with(labels, rows)
    return "" if recipe.data.separator == conll.TAB and not is_of_words else recipe.data.separator


def with_own_separator(recipe: Recipe, path: str | Path) -> Recipe:
    """Return the recipe with what parts the columns of its test or dev file, which its first lines tell."""
    lines = first_lines(path, recipe.data.encoding) if recipe.data.separator else []
    separator = separator_of_new(recipe, lines, recipe.features.column_names or None)
    return replace(recipe, data=replace(recipe.data, separator=separator))


def told_format(path: str | Path = "") -> str | None:
    """Return the format that a file's name tells, if any."""
    try:
        return formats.find_format(None, path).name
    except InputError:
        return None


def read_items(
    recipe: Recipe,
    path: str | Path,
    columns: Sequence[str] | None = None,
    *,
    is_new: bool = False,
    keeps_blank: bool = False,
) -> Any:
    """Return the items of a file as the recipe's structure wants them, else RecipeError: `columns` that the model
    reads, labels optional if `is_new`, and a blank line among texts a document if `keeps_blank`."""
    name = format_of(recipe, path)
    options = reading_options(recipe, name, columns, is_new=is_new, keeps_blank=keeps_blank)
    data = formats.read(path, name, encoding=recipe.data.encoding, **options)
    if isinstance(data, Labeled) != (recipe.structure.kind == "chain"):
        if is_new:
            has, labels = (
                ("sequences", "single items") if isinstance(data, Labeled) else ("single items", "sequences")
            )
            raise DataError(f"{shown_name(path)}: holds {has}, and the model labels {labels}")
        has, fitting = (
            ("sequences", '"chain"')
            if isinstance(data, Labeled)
            else ("documents", '"flat", "taxonomy" or "ranking"')
        )
        raise RecipeError(
            f'{recipe.source}: [structure] kind = "{recipe.structure.kind}": {path} holds {has}; use {fitting}'
        )
    if isinstance(data, Documents):
        _check_kind(recipe, data, path, is_new)
    return data


def _check_kind(recipe: Recipe, documents: Documents, path: str | Path, is_new: bool) -> None:
    """Raise DataError, for data to train on RecipeError, where documents have other inputs than the features need."""
    inputs, kind = documents.inputs, recipe.features.kind
    has = "text" if isinstance(inputs, list) else "table" if isinstance(inputs, TokenColumns) else "given"
    if has == kind:
        return
    words = {"text": "texts", "table": "rows of a table", "given": "numbers as svmlight has them"}
    if is_new:
        raise DataError(f"{shown_name(path)}: holds {words[has]}, and the model reads {words[kind]}")
    raise RecipeError(
        f'{recipe.source}: [features] kind = "{kind}": {shown_name(path)} holds {words[has]}; use "{has}"'
    )


def reading_options(
    recipe: Recipe,
    format: str,
    columns: Sequence[str] | None = None,
    *,
    is_new: bool = False,
    keeps_blank: bool = False,
) -> dict[str, Any]:
    """Return the options that the recipe's files in a format are read with; parameters as of `read_items`."""
    if recipe.structure.kind == "chain":
        if recipe.features.kind not in ("windows", "templates", "words"):
            return {}
        names = list(columns or recipe.features.column_names) or None
        how: dict[str, Any] = {"separator": recipe.data.separator or None} if format == "conll" else {}
        how |= {"tokens": recipe.data.tokens} if format == "raw" and recipe.data.tokens else {}
        return column_options(format, names) | named_columns(recipe, format, is_new) | how
    options = named_columns(recipe, format, is_new)
    if recipe.features.kind == "table" and format in TABLES:
        drop = [name.strip() for name in recipe.data.drop.split(",") if name.strip()]
        options |= {"rows": True, "drop": drop, "columns": columns and list(columns)}
        options |= {"header": recipe.data.header} if format != "parquet" else {}
        del options["sentence"]
    elif recipe.features.kind == "text" and format in TABLES:
        options |= {"text": recipe.data.text or None}
        options |= {"header": recipe.data.header} if format != "parquet" else {}
    elif format == "text":
        options["keeps_blank"] = keeps_blank
    elif format == "svmlight":
        options |= {"allows_several": recipe.structure.kind == "ranking"}
    return options


def named_columns(recipe: Recipe, format: str, is_new: bool) -> dict[str, Any]:
    """Return the options of a format that say which columns are labels and items, where the recipe does."""
    label, sentence = recipe.data.label or None, recipe.data.sentence or None
    if format in TABLES:
        return {"label": label, "sentence": sentence, "needs_named": not is_new}
    return {"label": label} if format == "conllu" and label is not None else {}


def column_options(format: str, names: list[str] | None) -> dict[str, Any]:
    """Return the options of a format that say how the columns are called, or for None that it reads all of them."""
    if format == "conllu":
        return {"columns": names or ONLY_WORDS}
    takes_all = format == "conll" or (format in (*TABLES, "raw") and names is not None)
    return {"columns": names} if takes_all else {}


def files_named(names: Sequence[str], folder: Path) -> list[str | Path]:
    """Return the files of a set in their order, from a folder: each by its name, as one of all files of a folder, or of
    those that a pattern (`*`, `?`, `[...]`) matches, by the alphabet. A file that is named again counts once, which a
    RepeatedFileWarning says. DataError where one is none, or no file."""
    files: dict[str | Path, str | Path] = {}  # by whole path
    repeated: list[str] = []
    for name in names:
        path = folder / name
        there: list[str | Path] = [path]
        if name == STANDARD_INPUT:
            there = [name]
        elif path.is_dir():
            there = sorted(
                file for file in path.iterdir() if file.is_file() and not file.name.startswith(".")
            )
            if not there:
                raise DataError(f"{path}: a folder without files; expected some to read")
        elif has_magic(name) and not path.exists():
            there = sorted(folder / file for file in glob(name, root_dir=folder, recursive=True))
            if not there:
                raise DataError(f"{path}: there is no such file")
        for file in there:
            whole = file if file == STANDARD_INPUT else Path(file).resolve()
            repeated += [shown_name(file)] * (whole in files)
            files.setdefault(whole, file)
    if repeated:
        message = f"named twice, and counted once: {', '.join(dict.fromkeys(repeated))}"
        warnings.warn(message, RepeatedFileWarning, stacklevel=2)
    return [*files.values()]


def read_set(
    recipe: Recipe,
    files: Sequence[str | Path],
    columns: Sequence[str] | None = None,
    *,
    is_new: bool = False,
    is_train: bool = False,
    check: Callable[[Any], None] | None = None,
) -> Any:
    """Return the items of several files as one set, of which those to train on begin with the one that the recipe was
    made for; each is checked by `check`. Other parameters and errors as of `read_items`; InputError, naming the file,
    for one whose items have other columns or features than those before."""
    joined: Any = None
    for path in files:
        is_own = is_train and joined is None
        with own_files():
            own = recipe if is_own else with_own_separator(recipe, path)
            data = read_items(own, path, columns, is_new=is_new)
        if check is not None:
            check(data)
        if joined is None:
            joined = data
        elif isinstance(data, Labeled):
            joined = append_test(joined, data)
        else:
            try:
                joined = concatenate(joined, data)
            except InputError as error:
                raise InputError(f"{shown_name(path)}: {error}") from error
    return joined


def own_parts(recipe: Recipe, check: Callable[[Any], None]) -> list[Any]:
    """Return the training part and, if there is one, the test part of a recipe's own files, each file checked."""
    parts: list[Any] = []
    for part in ("train", "test"):
        if names := recipe.data.names(part):
            with own_files():
                files = files_named(names, recipe.source.parent)
                files = [file if file == STANDARD_INPUT else own_file(Path(file)) for file in files]
            parts.append(read_set(recipe, files, is_train=part == "train", check=check))
    return parts
