"""Files of one's own that a recipe names, and new ones for its model: read in the format that they have.

That is the format which the recipe says, else what the file's name tells, else that of the kind of features. A new
file whose name tells another format than the training file's has that one; standard input has the training file's.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from crfqn.data.files.lines import STANDARD_INPUT
from crfqn.errors import InputError, RecipeError
from crfqn.readers.documents import Documents
from crfqn.readers.formats import registry as formats
from crfqn.readers.labeled import Labeled
from crfqn.recipes.schema import Recipe
from crfqn.recipes.source import own_file, own_files

OF_FEATURES = {
    "windows": "conll",
    "templates": "conll",
    "words": "conll",
    "text": "text",
    "given": "svmlight",
}
TABLES = ("csv", "tsv", "parquet")
ONLY_WORDS = ("form",)  # of CoNLL-U: lemmas and tags are what a tagger is to find
Data = TypeVar("Data", Labeled, Documents)


def format_of(recipe: Recipe, path: str | Path) -> str:
    """Return the name of the format of a recipe's file."""
    return recipe.data.format or told_format(path) or OF_FEATURES.get(recipe.features.kind, "crfsuite")


def format_of_new(recipe: Recipe, path: str | Path) -> str:
    """Return the name of the format of a file for the recipe's model: as its name tells, else as the training file's.

    Files named alike have the same format, also where the recipe says another than their name.
    """
    told, own = told_format(path), format_of(recipe, recipe.data.train)
    return own if told in (None, told_format(recipe.data.train)) else told


def told_format(path: str | Path) -> str | None:
    """Return the format that a file's name tells, if any."""
    try:
        return formats.find_format(None, path).name
    except InputError:
        return None


def read_sequences(
    recipe: Recipe, path: str | Path, columns: Sequence[str] | None = None, is_new: bool = False
) -> Labeled:
    """Return the items of a file of sequences.

    columns : those that the recipe's model reads, if that is known
    is_new : whether it is a file for the model, which may lack the column of labels
    """
    name = format_of(recipe, path)
    options = reading_options(recipe, name, columns, is_new=is_new)
    return _of_kind(recipe, path, Labeled, formats.read(path, name, **options))


def reading_options(
    recipe: Recipe,
    format: str,
    columns: Sequence[str] | None = None,
    *,
    is_new: bool = False,
    keeps_blank: bool = False,
) -> dict[str, Any]:
    """Return the options that the recipe's files in a format are read with; parameters as of the readers here."""
    if recipe.structure.kind == "chain":
        if recipe.features.kind not in ("windows", "templates", "words"):
            return {}
        names = list(columns or recipe.features.column_names) or None
        return column_options(format, names) | named_columns(recipe, format, is_new)
    options = named_columns(recipe, format, is_new)
    if format == "text":
        options["keeps_blank"] = keeps_blank
    elif format == "svmlight":
        options |= {"ignore_features": (), "allows_several": recipe.structure.kind == "ranking"}
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
    return {"columns": names} if format == "conll" or (format in TABLES and names is not None) else {}


def read_documents(
    recipe: Recipe, path: str | Path, keeps_blank: bool = False, is_new: bool = False
) -> Documents:
    """Return the documents of a file; `keeps_blank` as in `read_labelled_texts`, `is_new` as of sequences."""
    name = format_of(recipe, path)
    options = reading_options(recipe, name, is_new=is_new, keeps_blank=keeps_blank)
    return _of_kind(recipe, path, Documents, formats.read(path, name, **options))


def _of_kind(recipe: Recipe, path: str | Path, kind: type[Data], data: Any) -> Data:
    """Return the data; RecipeError for sequences in the place of documents or the other way."""
    if isinstance(data, kind):
        return data
    has, fitting = (
        ("sequences", '"chain"') if kind is Documents else ("documents", '"flat", "taxonomy" or "ranking"')
    )
    raise RecipeError(
        f'{recipe.source}: [structure] kind = "{recipe.structure.kind}": {path} holds {has}; use {fitting}'
    )


def own_parts(recipe: Recipe, read: Callable[[Recipe, str | Path], Data]) -> list[Data]:
    """Return the training part and, if there is one, the test part of a recipe's own files."""
    parts = []
    for name in (recipe.data.train, recipe.data.test):
        if not name:
            continue
        with own_files():
            path = name if name == STANDARD_INPUT else own_file(recipe.source.parent / name)
            parts.append(read(recipe, path))
    return parts
