"""Recipes without a file: from the names of data files and a few choices, for `crfqn train --data`."""

from pathlib import Path
from typing import Any

from crfqn.data.files.lines import STANDARD_INPUT
from crfqn.errors import InputError
from crfqn.readers.formats.conll import columns_of
from crfqn.readers.formats.registry import DOCUMENTS, SEQUENCES, find_format
from crfqn.recipes.schema import Recipe, parse_recipe
from crfqn.recipes.source import own_file, own_files

SOURCE = "command line"  # the recipe's name in messages; its files are named from the working folder
OF_FORMAT = {
    "crfsuite": "attributes",
    "svmlight": "given",
}  # features; other sequences have words, documents text


def recipe_of_options(
    data: str,
    test: str | None = None,
    format: str | None = None,
    structure: str | None = None,
    features: dict[str, Any] | None = None,
    name: str | None = None,
) -> Recipe:
    """Return the recipe of a training on a file.

    Parameters
    ----------
    data, test : str
        Files; `-` is standard input.
    format : str, optional
        By default what the name of `data` tells.
    structure : {"chain", "flat", "taxonomy", "ranking"}, optional
        By default a chain for formats of sequences, flat for formats of documents.
    features : dict, optional
        Keys of the recipe's [features]; by default words for sequences, text for documents, and what the
        format names itself.
    name : str, optional
        Of the model; by default that of the file.

    Raises
    ------
    InputError
        A format that the name does not tell; one that holds both sequences and documents, without a structure.
    RecipeError
        Choices that do not go together.
    """
    found = find_format(format, data)
    if structure is None:
        if len(found.holds) > 1:
            raise InputError(
                f"format {found.name} holds sequences or documents; say --structure chain, flat, taxonomy or ranking"
            )
        structure = {SEQUENCES: "chain", DOCUMENTS: "flat"}[found.holds[0]]
    kind = OF_FORMAT.get(found.name, "words" if structure == "chain" else "text")
    chosen = {"kind": kind} | (features or {})
    if found.name == "conll" and chosen["kind"] == "windows" and "columns" not in chosen:
        if data == STANDARD_INPUT:
            raise InputError(
                'the columns of standard input are not known; say --columns "w pos", without the label'
            )
        with own_files():
            chosen["columns"] = " ".join(columns_of(own_file(Path(data))))
    files = {name: place(path) for name, path in (("train", data), ("test", test)) if path}
    table = {
        "name": name or stem(data),
        "title": f"{data}: {found.title}",
        "data": files | {"format": found.name},
        "features": chosen,
        "structure": {"kind": structure},
    }
    return parse_recipe(table, Path.cwd() / SOURCE)


def place(path: str) -> str:
    """Return the whole path of a file, so that a model knows it from any folder."""
    return path if path == STANDARD_INPUT else str(Path(path).resolve())


def stem(path: str) -> str:
    """Return a file's name without its extensions; "model" for standard input."""
    return "model" if path == STANDARD_INPUT else Path(path).name.split(".")[0] or "model"
