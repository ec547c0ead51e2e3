"""Reads the data of a recipe: its dataset or files, new files for its model, and the split of the items.

The format of a file is the first of: that in the recipe, that of the file's name, that of the kind of features. The
format of a new file is the first of: that of its name, one that the model reads and that fits the first lines, that of
the training file.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from glob import glob, has_magic
from pathlib import Path
from typing import Any

import numpy as np

from crfqn.choices import BY_FEATURE, UNICODE_RULES
from crfqn.data.files import STANDARD_INPUT, shown_name
from crfqn.data.label_arrays import target_reader
from crfqn.data.numbering import counts_rows
from crfqn.data.token_columns import TokenColumns
from crfqn.data_options import COMMAND_LINE, DATA_OPTIONS, OF_COLUMNS, OF_TEMPLATES, DataSection, keys_in
from crfqn.errors import (
    ColumnWarning,
    DataError,
    DataUnavailableError,
    InputError,
    RecipeError,
    RepeatedFileWarning,
    warn_caller,
)
from crfqn.messages import Where, numbered, places_among, shorten
from crfqn.readers import conll, registry
from crfqn.readers.datasets import Dataset, dataset
from crfqn.readers.format import SEQUENCES
from crfqn.readers.labelled_items import Documents, Labeled, LabelledItems
from crfqn.readers.labelled_text import RAW_FORMAT
from crfqn.readers.tables import LABEL_TITLES, TEXT_TITLES, titles
from crfqn.recipes.schema import Recipe, shown

EMBEDDED = "digits"
EMBEDDED_DOCUMENTS = "stdlib"
# The format of files by kind of features, if neither recipe nor name determines it.
OF_FEATURES = dict.fromkeys(OF_COLUMNS, "conll") | {
    "pixel-pairs": "crfsuite",
    "attributes": "crfsuite",
    "text": "text",
    "given": "svmlight",
    "table": "csv",
}
# The keys of [data] that are options of readers, with their defaults.
OF_DATA = {
    name: key.default
    for name, key in keys_in(DataSection).items()
    if any(name in format.options() for format in registry.FORMATS.values())
}


@contextmanager
def own_files() -> Iterator[None]:
    """Convert DataUnavailableError into DataError: a missing file that the user named cannot be downloaded."""
    try:
        yield
    except DataUnavailableError as error:
        raise DataError(str(error)) from error


def find_dataset(recipe: Recipe) -> Dataset:
    """Return the registry's entry of the recipe's dataset; RecipeError if there is none."""
    try:
        return dataset(recipe.data.dataset)
    except DataError as error:
        raise RecipeError(f"{recipe.source}: [data] dataset: {error}") from error


def load_items(recipe: Recipe) -> Any:
    """Return all items of a recipe's dataset or files, those for training first.

    RecipeError for sequences instead of documents or the reverse; DataError, with the line, for items without a label.
    """
    check_options(recipe)
    if not recipe.data.dataset:
        parts: list[Any] = []
        for part in filter(recipe.data.names, ("train", "test")):
            with own_files():
                files = files_named(recipe.data.names(part), recipe.source.parent)
            parts.append(read_set(recipe, files, is_train=part == "train"))
            recipe = cut_alike(recipe, parts[0].inputs)
        if len(parts) == 1:
            return replace(parts[0], n_train=parts[0].n_items)
        return parts[0].joined(parts[1])
    is_chain = recipe.structure.kind == "chain"
    try:
        data = find_dataset(recipe).load()
    except DataUnavailableError as error:
        name = EMBEDDED if is_chain else EMBEDDED_DOCUMENTS
        raise DataUnavailableError(
            f"{error}\nWithout any download: `crfqn train models/{name}` trains on data that is built in."
        ) from error
    if isinstance(data, Labeled) != is_chain:
        fitting = (
            'single items; use "taxonomy", "flat" or "ranking"' if is_chain else 'sequences; use "chain"'
        )
        raise RecipeError(
            f'{recipe.source}: [structure] kind = "{recipe.structure.kind}": the dataset '
            f"{recipe.data.dataset!r} has {fitting}"
        )
    return data


def split(recipe: Recipe, data: LabelledItems) -> tuple[np.ndarray, np.ndarray]:
    """Return the indices of the training and the test items, ascending or in the order of a permutation.

    The split "given" takes the first `data.n_train` items for training.
    """
    cut, n_items = recipe.data.split, data.n_items
    if cut.kind == "given":
        if data.n_train is None:
            raise RecipeError(
                f"{recipe.source}: [data.split] the dataset {recipe.data.dataset!r} has no split; "
                f'use kind = "permutation" with seed and train'
            )
        order, n_train = np.arange(n_items), data.n_train
    else:
        assert cut.train is not None  # the schema has checked it
        order, n_train = np.random.RandomState(cut.seed).permutation(n_items), cut.train
        if n_train >= n_items:
            raise RecipeError(
                f"{recipe.source}: [data.split] train = {n_train}: expected 1 to {n_items - 1}, since the "
                f"data has {n_items} items and some must be left for the test"
            )
    return order[:n_train], order[n_train:]


def places_of(recipe: Recipe, data: LabelledItems, items: np.ndarray | None = None) -> Where:
    """Return the function that names the places of items (None: all) of a recipe's data: file and line, or the dataset
    and the number of the item. It does not keep the items in memory."""
    start = f"{recipe.data.dataset}, " if recipe.data.dataset else ""
    of_all = data.places.where if data.places else lambda item, position: start + numbered(item, position)
    return of_all if items is None else places_among(items, of_all)


def format_of_name(path: str | Path = "", *, reads: bool = True) -> str | None:
    """Return the format that a file's name indicates, if any; parameters as of `find_format`."""
    try:
        return registry.find_format(None, path, reads=reads).name
    except InputError:
        return None


def format_of(recipe: Recipe, path: str | Path = "") -> str:
    """Return the format of a recipe's file: that in the recipe, of its name, or of the first training file's name."""
    named = recipe.data.format or format_of_name(path) or format_of_name(*recipe.data.names("train")[:1])
    return named or OF_FEATURES[recipe.features.kind]


def format_of_new(
    recipe: Recipe,
    path: str | Path,
    lines: Sequence[str],
    columns: Sequence[str] | None,
    labels: Collection[str],
) -> str:
    """Return the format of a new file for a model that reads `columns` and has `labels`, by its name or first lines.

    If the name indicates the same format as that of the training file, it is the format of the training file.
    """
    named, of_training = format_of_name(path), format_of(recipe)
    if named is not None:
        named = of_training if named == format_of_name(*recipe.data.names("train")[:1]) else named
        return _of_items(recipe, named, shown_name(path), lines)
    kind = recipe.features.kind
    if columns is not None and kind != "table":
        named = format_of_columns(lines, columns, labels, of_training)
        return _of_items(recipe, named, shown_name(path), lines)
    format = registry.sniff(lines, registry.formats_with(kind))
    delimiter = registry.find_format(format).delimiter if format else ""
    if kind == "text" and recipe.data.header and delimiter:
        format = format if {*TEXT_TITLES, recipe.data.text} & {*titles(lines, delimiter)} else None
    return format or (of_training if kind in ("table", "attributes") or not lines else OF_FEATURES[kind])


def _of_items(recipe: Recipe, format: str, shown: str, lines: Sequence[str]) -> str:
    """Return the format or, for a model of sequences if the lines are documents in it, that of texts to be cut."""
    row = registry.FORMATS[format]
    if recipe.structure.kind != "chain" or row.kind_of is None or not lines:
        return format
    if row.kind_of(shown, lines)[0] == SEQUENCES:
        return format
    alike = (
        one.name
        for one in registry.FORMATS.values()
        if one.is_uncut and {*one.extensions} & {*row.extensions}
    )
    return next(alike, format)


def format_of_columns(
    lines: Sequence[str], columns: Sequence[str], labels: Collection[str], of_training: str
) -> str:
    """Return the format of lines for a model that reads `columns` and has `labels`, given the training file's."""
    format = registry.sniff_titled(lines)
    delimiter = registry.find_format(format).delimiter if format else ""
    if delimiter and not {*columns} <= {*titles(lines, delimiter)}:
        format = None
    if format is None and len(columns) == 1 and registry.are_sentences(lines, labels):
        format = RAW_FORMAT.name
    is_alike = lines == [] or registry.find_format(of_training).begins is None  # no lines contradict it
    return format or (of_training if is_alike else OF_FEATURES["words"])


def separator_of_new(
    recipe: Recipe, lines: Sequence[str], columns: Sequence[str] | None, labels: Collection[str] = ()
) -> str:
    """Return the separator of the columns of a file that is not the training file.

    It is a tab if all lines have the right number of tabs. It is a blank if the training file had tabs, unless the
    lines are only words, some of which contain blanks.
    """
    if conll.splits_at_tabs(lines, columns):
        return conll.TAB_SEPARATOR
    rows = registry.word_rows(lines)
    is_of_words = (
        len(columns or ()) == 1 and len({*map(len, rows)}) > 1 and not registry.end_with(labels, rows)
    )
    return "" if recipe.data.separator == conll.TAB_SEPARATOR and not is_of_words else recipe.data.separator


def warn_of_labels(recipe: Recipe, data: LabelledItems) -> None:
    """Warn about labels that differ only in blanks; labels of a ranking are read without surrounding blanks."""
    distinct = () if recipe.structure.kind == "ranking" else dict.fromkeys(data.each_label())
    read = target_reader(distinct) if data.has_numbers else str
    plain: dict[str, str] = {}  # the first spelling of each label without its blanks
    for label in sorted(distinct, key=lambda label: label != label.strip()):
        twin = plain.setdefault(label.strip(), label)
        if read(twin) == read(label):
            continue
        place = data.where(*next(data.labelled(label)))
        column = f" of the column {recipe.data.label!r}" if recipe.data.label else ""
        warn_caller(
            f"{place}: the label {shorten(label)}{column} is a class of its own, though it differs from "
            f"{shorten(twin)} in blanks alone; if both are one class, take the blanks out of the file",
            ColumnWarning,
        )


def check_all_labelled(recipe: Recipe, data: LabelledItems) -> None:
    """Raise DataError if an item or position has no label; the message has the line of the first one."""
    missing = [*data.labelled("")]
    if not missing:
        return
    row = registry.find_format(format_of(recipe))
    form = row.title
    if isinstance(data, Labeled) and row.titles is not None:
        titles_of_labels = recipe.data.label or ", ".join(LABEL_TITLES)
        form = f"one in each row, in a column called {titles_of_labels} (--label names another)"
    elif isinstance(data, Labeled) and recipe.features.column_names and "separator" in row.options():
        form = f"`{' '.join([*recipe.features.column_names, 'label'])}`"
    others = f" (and {len(missing) - 1} more)" if len(missing) > 1 else ""
    raise DataError(f"{data.where(*missing[0])}: no label{others}; expected {form}")


def without_unlabelled(data: Documents) -> Documents:
    """Return the documents with a label, and warn about the number of others; DataError if there is none."""
    items = np.flatnonzero([bool(label) for label in data.labels])
    if not items.size:
        raise DataError(f"{data.where(0)}: expected items with a label, got none")
    if items.size == data.n_items:
        return data
    places = data.places and replace(data.places, lines=data.places.lines[items])
    n_left_out = data.n_items - items.size
    warn_caller(f"{n_left_out:,} of {data.n_items:,} items have no label and are left out")
    return replace(data.part(items), places=places)


def warn_of_indices(data: Documents, shown: str) -> None:
    """Warn about columns of a table that number its rows."""
    for name, texts in data.inputs.texts.items():
        if counts_rows(texts):
            warn_caller(
                f"{shown}: the column {name!r} numbers the rows ({texts[0]}, {texts[1]}, ...), as the index does that "
                f"pandas saves with a table, and is a feature; leave it out by drop (--drop {name}), or save the table "
                "without it (index=False)",
                ColumnWarning,
            )


def read_items(
    recipe: Recipe,
    path: str | Path,
    columns: Sequence[str] | None = None,
    *,
    is_new: bool = False,
    keeps_blank: bool = False,
) -> Any:
    """Return the items of a file.

    columns : the columns that the model reads
    is_new : whether labels are optional
    keeps_blank : whether a blank line among texts is a document

    DataError (RecipeError for training data) if the items do not match the structure and features of the recipe.
    """
    name = format_of(recipe, path)
    options = reading_options(recipe, name, columns, is_new=is_new, keeps_blank=keeps_blank)
    settings, names = recipe.data, recipe.data.label_names
    data = registry.read(
        path, name, encoding=settings.encoding, missing=settings.missing, label_names=names, **options
    )
    structure, kind = recipe.structure.kind, recipe.features.kind
    has_sequences = isinstance(data, Labeled)
    if has_sequences != (structure == "chain"):
        if is_new:
            other = (
                "sequences, and the model labels single items"
                if has_sequences
                else "single items, and the model labels sequences"
            )
            raise DataError(f"{shown_name(path)}: holds {other}")
        fitting = (
            'sequences; use "chain"' if has_sequences else 'documents; use "flat", "taxonomy" or "ranking"'
        )
        raise RecipeError(f'{recipe.source}: [structure] kind = "{structure}": {path} holds {fitting}')
    if has_sequences:
        return data
    has = "text" if isinstance(data.inputs, list) else "given"
    has = "table" if isinstance(data.inputs, TokenColumns) else has
    words = {"text": "texts", "table": "rows of a table", "given": "numbers as svmlight has them"}
    if has != kind and is_new:
        raise DataError(f"{shown_name(path)}: holds {words[has]}, and the model reads {words[kind]}")
    if has != kind:
        raise RecipeError(
            f'{recipe.source}: [features] kind = "{kind}": {shown_name(path)} holds {words[has]}; use "{has}"'
        )
    return data


def reading_options(
    recipe: Recipe,
    format: str,
    columns: Sequence[str] | None = None,
    *,
    is_new: bool = False,
    keeps_blank: bool = False,
) -> dict[str, Any]:
    """Return the options for reading the recipe's files in a format; parameters as in `read_items`."""
    data, kind = recipe.data, recipe.features.kind
    is_chain, taken = recipe.structure.kind == "chain", options_taken(recipe, format)
    options = {name: value for name, value in named_options(recipe).items() if name in taken}
    if "needs_named" in taken:
        options["needs_named"] = not is_new
    if is_chain and kind in OF_COLUMNS:
        options |= column_options(format, list(columns or recipe.features.column_names) or None)
        if "reads_spans" in taken:
            options["reads_spans"] = data.reads_spans is not False
            if kind not in OF_TEMPLATES:  # whose models keep no tokenizer but that of the recipe
                options.setdefault("tokenizer", UNICODE_RULES)
        return options
    if kind == "table" and "rows" in taken:
        drop = [name.strip() for name in data.drop.split(",") if name.strip()]
        options |= {"rows": True, "drop": drop, "columns": columns and list(columns)}
    if "keeps_blank" in taken:
        options["keeps_blank"] = keeps_blank
    if "allows_several" in taken:
        options["allows_several"] = recipe.structure.kind == "ranking"
    return options


def named_options(recipe: Recipe) -> dict[str, Any]:
    """Return the options of readers that the section [data] sets."""
    return {name: value for name in OF_DATA if (value := getattr(recipe.data, name)) != OF_DATA[name]}


def options_taken(recipe: Recipe, format: str) -> list[str]:
    """Return the options of a format for the structure and features of the recipe."""
    kind = recipe.features.kind
    idle = {"table": ("sentence", "text"), "text": ("sentence", "drop")}.get(kind, ("text", "drop", "header"))
    return [name for name in registry.find_format(format).options() if name not in idle]


def check_options(recipe: Recipe) -> None:
    """Raise RecipeError for an option of [data] that the format of the training data does not have."""
    data, named = recipe.data, named_options(recipe)
    if data.dataset:
        what, taken = f"the dataset {data.dataset!r}", []
    else:
        format = format_of(recipe, *data.names("train")[:1])
        what, taken = f"format {format!r}", options_taken(recipe, format)
    for name, value in named.items():
        if name not in taken:
            offered = [name for name in OF_DATA if name in taken]
            if recipe.source.name == COMMAND_LINE:
                settable = {option.key for option in DATA_OPTIONS.values() if option.section == "data"}
                offered = [name for name in offered if name in settable]
            others = ", ".join(offered)
            raise RecipeError(
                f"{recipe.source}: [data] {name} = {shown(value)}: {what} with the features {recipe.features.kind!r} "
                f"has no such option; it has {others or 'none of this kind'}"
            )


def column_options(format: str, names: list[str] | None) -> dict[str, Any]:
    """Return the options of a format for reading the named columns, None for all of them."""
    row = registry.find_format(format)
    read = names or row.columns
    return {"columns": read} if read and "columns" in row.options() else {}


def files_named(names: Sequence[str], folder: Path) -> list[str | Path]:
    """Return the files of names, folders and patterns (`*`, `?`, `[...]`) below `folder`.

    The files of a folder or pattern are in alphabetical order. A repeated file counts once, with a RepeatedFileWarning.
    DataError for a pattern or folder without files.
    """
    files: dict[str | Path, str | Path] = {}  # by whole path
    repeated: list[str] = []
    for name in names:
        path = folder / name
        matches: list[str | Path] = [path]
        if name == STANDARD_INPUT:
            matches = [name]
        elif path.is_dir() and registry.format_of_folder(path) is None:
            matches = sorted(file for file in path.iterdir() if file.is_file() and file.name[0] != ".")
            if not matches:
                raise DataError(f"{path}: a folder without files; expected files to read")
        elif has_magic(name) and not path.exists():
            matches = sorted(folder / file for file in glob(name, root_dir=folder, recursive=True))
            if not matches:
                raise DataError(f"{path}: there is no such file")
        for file in matches:
            whole = file if file == STANDARD_INPUT else Path(file).resolve()
            repeated += [shown_name(file)] * (whole in files)
            files.setdefault(whole, file)
    if repeated:
        warn_caller(
            f"named twice, and counted once: {', '.join(dict.fromkeys(repeated))}", RepeatedFileWarning
        )
    return [*files.values()]


def files_of(recipe: Recipe) -> list[str | Path]:
    """Return the names of the files, folders and patterns that a recipe reads, and that of the recipe."""
    folder = recipe.source.parent
    by_feature = [getattr(recipe.objective, name) for name, row in BY_FEATURE.items() if row.read_file]
    names = [name for part in ("train", "test", "dev") for name in recipe.data.names(part)]
    names += filter(None, (recipe.features.templates, recipe.structure.taxonomy, *recipe.features.gazetteers))
    names += [value for value in by_feature if isinstance(value, str)]
    files = [recipe.source, *(folder / name for name in names)]
    return [*files, *(dataset(recipe.data.dataset).locate() if recipe.data.dataset else ())]


def cut_alike(recipe: Recipe, cut: object) -> Recipe:
    """Return the recipe with the tokenizer of items or of a vocabulary, so that it cuts the texts of other files, too;
    the same recipe if there is none."""
    tokenizer = getattr(cut, "tokenizer", None)
    return recipe if tokenizer is None else replace(recipe, data=replace(recipe.data, tokenizer=tokenizer))


def read_set(
    recipe: Recipe,
    files: Sequence[str | Path],
    columns: Sequence[str] | None = None,
    *,
    is_new: bool = False,
    is_train: bool = False,
) -> Any:
    """Return the items of several files as one set.

    is_train : whether the recipe was made for the first file, so that its separator is that of this file

    Other parameters and errors as in `read_items`; InputError for a file with other columns or features.
    """
    joined: Any = None
    for path in files:
        settings = recipe.data
        if joined is not None or not is_train:  # the lines of this file determine its separator
            lines = registry.first_lines(path, settings.encoding) if settings.separator else []
            separator = separator_of_new(recipe, lines, recipe.features.column_names or None)
            settings = replace(settings, separator=separator)
        with own_files():
            data = read_items(replace(recipe, data=settings), path, columns, is_new=is_new)
        recipe = cut_alike(recipe, data.inputs)
        if not is_new and recipe.data.missing is not None:
            data = without_unlabelled(data) if isinstance(data, Documents) else data
        elif not is_new:
            check_all_labelled(recipe, data)
        if not is_new:
            warn_of_labels(recipe, data)
            if recipe.features.kind == "table":
                warn_of_indices(data, shown_name(path))
        joined = data if joined is None else joined.joined(data)
    return joined
