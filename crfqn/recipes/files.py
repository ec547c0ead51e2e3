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


def read_sequences(recipe: Recipe, path: str | Path, columns: Sequence[str] | None = None) -> Labeled:
    """Return the items of a file of sequences; `columns`: those that the recipe's model reads, if that is known."""
    name = format_of(recipe, path)
    if recipe.features.kind in ("windows", "templates", "words"):
        names = list(columns or recipe.features.column_names) or None
        return _of_kind(recipe, path, Labeled, read_columns(path, name, names))
    return _of_kind(recipe, path, Labeled, formats.read(path, name))


def read_columns(path: str | Path, format: str, names: list[str] | None) -> Any:
    """Return the items of a file whose columns have these names, or all columns that there are."""
    options: dict[str, Any] = {}
    if format == "conll":
        options["columns"] = names
    elif format == "conllu":
        options["columns"] = names or ONLY_WORDS
    elif format in TABLES and names is not None:
        options["columns"] = names
    return formats.read(path, format, **options)


def read_documents(recipe: Recipe, path: str | Path, keeps_blank: bool = False) -> Documents:
    """Return the documents of a file; `keeps_blank` as in `read_labelled_texts`."""
    name = format_of(recipe, path)
    options: dict[str, Any] = {}
    if name == "text":
        options["keeps_blank"] = keeps_blank
    elif name == "svmlight":
        options |= {"ignore_features": (), "allows_several": recipe.structure.kind == "ranking"}
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
