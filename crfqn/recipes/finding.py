"""Finds recipes by name or path, makes them from data files and options (`crfqn train --data`), writes skeletons."""

import difflib
import json
import shlex
import tomllib
from collections.abc import Sequence
from dataclasses import MISSING
from os.path import isfile
from pathlib import Path
from typing import Any

from crfqn.choices import STRUCTURED
from crfqn.data.files import STANDARD_INPUT, check_whole, is_blank, is_stream, shown_name
from crfqn.data_options import COMMAND_LINE, DATA_OPTIONS, FEATURES_OF, SECTIONS, keys_in
from crfqn.errors import InputError, RecipeError
from crfqn.readers.conll import TAB_SEPARATOR, column_names, splits_at_tabs
from crfqn.readers.datasets import bundled
from crfqn.readers.format import DOCUMENTS, SEQUENCES, Format
from crfqn.readers.json_lines import FIRST_COLUMN
from crfqn.readers.label_values import names_of_labels
from crfqn.readers.registry import FORMATS, find_format, first_lines, format_of_folder, formats_with, sniff
from crfqn.readers.tables import LABEL_TITLES_OF_ROWS, TEXT_TITLES, are_texts, has_header
from crfqn.recipes.schema import Recipe, keys_of, parse_recipe
from crfqn.recipes.sources import files_named, format_of_name, own_files

FILE_NAME = "recipe.toml"
SKELETON_VALUES: dict[str, dict[str, Any]] = {  # keys that a skeleton sets; all others are comments in it
    "data": {"train": "train.txt", "test": "test.txt"},
    "objective": {"l1": "auto"},
    "windows": {"columns": "word", "templates": "word[-1] word[0] word[1] word[-1]|word[0]"},
}


def list_recipes() -> list[str]:
    """Return the names of the ready-made recipes, sorted."""
    return sorted(path.parent.name for path in bundled("models").glob(f"*/{FILE_NAME}"))


def find_recipe(name_or_path: str | Path) -> Path:
    """Return the file of a recipe by its path, the path of its folder, or the name of a ready-made recipe.

    `models/ocr` is a path if it exists, otherwise the ready-made `ocr`. RecipeError, with the names of the ready-made
    recipes, if there is no such file.
    """
    path = Path(name_or_path)
    if path.is_file():
        return path
    if (path / FILE_NAME).is_file():
        return path / FILE_NAME
    names = list_recipes()
    if path.name in names and path.parts in ((path.name,), ("models", path.name)):
        return bundled("models") / path.name / FILE_NAME
    here = f"{name_or_path}: there is no such file, nor a ready-made model of this name"
    if path.is_dir():
        here = f"the folder {path} has no {FILE_NAME}"
    raise RecipeError(
        f"{here}; expected a file of data after --data, the path of a recipe, or one of the ready-made models: "
        f"{', '.join(names)}"
    )


def load_recipe(name_or_path: str | Path) -> Recipe:
    """Find, read and check a recipe; RecipeError if there is none, for invalid TOML, and for invalid keys or values."""
    path = find_recipe(name_or_path)
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:  # bad TOML and bad UTF-8 are ValueErrors
        hint = "" if path.suffix == ".toml" else f"; to train on a file of data, say --data {path}"
        raise RecipeError(f"{path}: cannot be read as TOML: {error}{hint}") from error
    return parse_recipe(table, path)


def recipe_of_options(data: str | Sequence[str], **options: Any) -> Recipe:
    """Return a recipe for the files `data`, `-` for standard input, and options (`DATA_OPTIONS`).

    By default the name or the content of the first file determines the format, and the format determines structure and
    features.
    """

    def whole_path(path: str | Path) -> str:  # absolute, so that a model finds it from any folder
        return str(path if is_stream(path) else Path(path).resolve())  # /dev/fd/63 does not resolve

    sections: dict[str, dict[str, Any]] = {"data": {}, "features": {}, "structure": {}}
    for option, value in options.items():
        row = DATA_OPTIONS[option]
        sections[row.section][row.key] = value
    keys, features, labels = sections.values()
    names = keys["train"] = _as_list(data)
    if "drop" in keys:
        keys["drop"] = ",".join(_as_list(keys["drop"]))
    if "label_names" in keys:
        keys["label_names"] = names_of_labels(_as_list(keys["label_names"]))
    files = {part: files_named(_as_list(keys[part]), Path()) for part in ("train", "test") if keys.get(part)}
    first = str(files["train"][0])
    lines = first_lines(first, keys.get("encoding", "utf-8"), waits=True)
    format = _format_of(first, keys.get("format"), lines)
    if "format" in keys or format_of_name(first, reads=False) != format.name:
        keys["format"] = format.name
    if "gazetteers" in features:
        features["gazetteers"] = [*map(whole_path, features["gazetteers"])]
    if "taxonomy" in labels:
        labels.setdefault("kind", "taxonomy")
        labels["taxonomy"] = whole_path(labels["taxonomy"])
    if "kind" not in labels:
        labels["kind"] = _structure_of(format, features.get("kind"), lines, shown_name(first))
    title = _infer_features(first, format, lines, keys, features, labels["kind"])
    if "separator" in format.options() and splits_at_tabs(lines):
        keys["separator"] = TAB_SEPARATOR
    for part, paths in files.items():
        whole = [*map(whole_path, paths)]
        keys[part] = whole[0] if len(whole) == 1 else whole
    name = Path(names[0] if Path(names[0]).is_dir() else first).name.split(".")[0] or "model"
    has_intercept = features["kind"] == "table" and labels["kind"] in ("flat", "taxonomy")
    table = {
        "name": "model" if is_stream(first) else name,
        "title": f"{', '.join(Path(name).name for name in names)}: {title or format.title}",
        "objective": {"fit_intercept": True} if has_intercept else {},
    }
    return parse_recipe(table | sections, Path.cwd() / COMMAND_LINE)


def _as_list(names: str | Sequence[str]) -> list[str]:
    return [names] if isinstance(names, str) else [*names]


def _format_of(data: str, format: str | None, lines: Sequence[str]) -> Format:
    """Return the format of a file to train on, by its name or its first lines; InputError if neither determines it."""
    shown = shown_name(data)
    is_folder = Path(data).is_dir() and format_of_folder(data) is None
    if data != STANDARD_INPUT and (not Path(data).exists() or is_folder):
        raise InputError(
            f"{data}: {'a folder' if is_folder else 'no such file'}; expected a file to train on"
        )
    name = format or format_of_name(data) or sniff(lines)
    if name is None:
        if not lines:
            raise InputError(f"{shown}: empty; expected items to train on")
        known = ", ".join(FORMATS)
        raise InputError(
            f"{shown}: neither its name nor its content determines the format; expected --format: {known}"
        )
    return find_format(name, data)


def _structure_of(format: Format, features: str | None, lines: Sequence[str], shown: str) -> str:
    """Return the structure of the labels in a format: flat for features of single items and JSON lines of texts.

    InputError if several structures are possible, DataError if the first JSON line has no items.
    """
    kinds = format.holds
    if len(kinds) > 1 and features is not None:
        kinds = (DOCUMENTS if features in FEATURES_OF["flat"] else SEQUENCES,)
    elif format.kind_of is not None and lines:
        kinds = (format.kind_of(shown, lines)[0],)
    if len(kinds) > 1:
        if not lines:
            raise InputError(f"{shown}: empty; expected items to train on")
        raise InputError(
            f"format {format.name} holds sequences or documents; say --structure chain, flat, taxonomy or ranking"
        )
    return {SEQUENCES: "chain", DOCUMENTS: "flat"}[kinds[0]]


def _infer_features(
    data: str,
    format: Format,
    lines: Sequence[str],
    keys: dict[str, Any],
    features: dict[str, Any],
    structure: str,
) -> str:
    """Complete [features] and, for tables, [data] from the format and the first lines of a file; return a title for a
    table, "" for other files."""
    header: list[str] = []
    names_of = None if structure == "chain" else format.titles
    is_table = names_of is not None
    if names_of is not None:
        if format.delimiter:
            check_whole(data, 1, "".join(lines[:1]))
        with own_files():
            header = names_of(data, lines, sheet=keys.get("sheet", ""))
        if not header:
            raise InputError(f"{data}: empty; expected a table, and a column of labels in it")
    if "kind" not in features:
        of_format = "words" if structure == "chain" else "text"
        if not {"words", "text"} & {*format.features}:
            of_format = format.features[0]
        if is_table and not {title.lower() for title in header} & {*TEXT_TITLES}:
            of_format = "table"
        elif format.kind_of is not None and of_format == "words" and lines:
            of_format = "attributes" if format.kind_of(shown_name(data), lines)[1] else of_format
        templates = features.get("templates")
        features["kind"] = _kind_of_templates(templates) if templates else of_format
    kind = features["kind"]
    if kind == "text" and not is_table and "text" in format.options() and "columns" in features:
        keys["text"] = features.pop("columns")
    if {"separator", "columns"} <= {*format.options()} and "columns" not in features:
        if lines and not any(column_names([line]) for line in lines if not is_blank(line)):
            raise InputError(
                f"{shown_name(data)}: one column, {lines[0].strip()[:60]!r}; expected words and, in the last one, "
                "labels"
            )
        if kind == "windows":
            features["columns"] = " ".join(column_names(lines))
    elif kind == "windows" and format.is_uncut:
        features.setdefault("columns", FIRST_COLUMN)
    if kind == "table" and structure != "chain" and not is_table:
        raise InputError(
            f"--features table: expected a file in format {', '.join(formats_with(kind))}, and {data} is {format.name}"
        )
    if not is_table or kind not in ("table", "text"):
        if "header" in keys or "drop" in keys:
            raise InputError(
                "--drop, --header and --no-header are for tables whose rows are items (--features table); --header and "
                "--no-header also for tables of texts (--features text)"
            )
        return ""
    if not format.delimiter:
        keys["header"] = True
    keys.setdefault("header", format.delimiter != "" and has_header(lines, format.delimiter))
    names = header if keys["header"] else [str(number) for number in range(1, len(header) + 1)]
    if kind == "text":
        _choose_texts(data, names, keys, features.pop("columns", ""), format.delimiter, lines)
        return f"texts, the column {keys['text']!r} of a table, labels in its column {keys['label']!r}"
    chosen = "" if "label" in keys else " (--label names another)"
    usual = next((name for name in names if name.lower() in LABEL_TITLES_OF_ROWS), names[-1] if names else "")
    keys["label"] = column_named("label", keys.get("label", usual), names)
    drop = [name.strip() for name in keys.get("drop", "").split(",") if name.strip()]
    keys["drop"] = ",".join(column_named("drop", name, names) for name in drop)
    return f"rows of a table, its column {keys['label']!r} the label{chosen}"


def _choose_texts(
    data: str, names: list[str], keys: dict[str, Any], text: str, delimiter: str, lines: Sequence[str]
) -> None:
    """Set the keys text and label of [data] for a table of texts: the column given by the user, a column with a usual
    name, or the only possible one. InputError, with the missing options, if several columns are possible."""
    usual = {name.lower(): name for name in reversed(names)}
    text = column_named("columns", text, names) if text else usual.get(*TEXT_TITLES, "")
    label = column_named("label", keys["label"], names) if "label" in keys else ""
    if not label:
        fitting = [usual[name] for name in LABEL_TITLES_OF_ROWS if name in usual] + names[::-1] * bool(text)
        label = next((name for name in fitting if name != text), "")
    others = [name for name in names if name not in (text, label)]
    texts = are_texts(lines, delimiter, names, others) if delimiter else others
    if not text and label and len(texts) == 1:
        (text,) = texts
    if text and label:
        keys |= {"text": text, "label": label}
        return
    missing = [] if text else ["--columns", *(texts or others)[:1]]
    missing += [] if label else ["--label", names[-1]] if names else []
    bare = "; if the first line is an item, --no-header, and numbers for names" if keys["header"] else ""
    raise InputError(
        f"{data}: expected a column of texts and one of labels, there are: {', '.join(names):.300}; say which, as by "
        f"{shlex.join(missing)}{bare}"
    )


def _kind_of_templates(templates: str) -> str:
    """Return the kind of features of --templates, a pattern file or the templates; InputError for anything else, with
    a similar file name."""
    if isfile(templates):
        return "templates"
    path = Path(templates)
    if "[" not in templates:
        files = [entry.name for entry in path.parent.iterdir()] if path.parent.is_dir() else []
        near = difflib.get_close_matches(path.name, files, n=1)
        hint = f"; did you mean {path.with_name(near[0])}?" if near and not path.is_dir() else ""
        raise InputError(
            f"--templates {templates}: {'a folder' if path.is_dir() else 'no such file'}, and no templates like w[0] "
            f"or w[-1]|w[0]{hint}"
        )
    return "windows"


def column_named(option: str, name: str, names: list[str]) -> str:
    """Return a column's name, given the name or the number, from 1 on or from -1 backwards."""
    if name in names:
        return name
    number = int(name) if name.removeprefix("-").isdecimal() else 0
    if not 1 <= abs(number) <= len(names):
        raise InputError(
            f"--{option} {name}: expected a column, or its number from 1; there are: {', '.join(names):.300}"
        )
    return names[number - 1 if number > 0 else number]


def skeleton(structure: str = "chain") -> str:
    """Return a recipe to start from: every key of a structure with default and meaning; InputError for an unknown
    structure."""
    lines = ['name = "mine"', 'title = "A model of my own"', ""]
    kind = _shown_features(structure)
    examples = SKELETON_VALUES | {
        "features": {"kind": kind} | SKELETON_VALUES.get(kind, {}),
        "structure": {"kind": structure},
    }
    for section, declared in describe_keys(structure).items():
        lines.append(f"[{section}]")
        for name, key in declared.items():
            value = examples.get(section, {}).get(name, key["default"])
            text = f"{name} = {'...' if value is None else json.dumps(value)}"
            choices = f": {' | '.join(key['choices'])}" if key["choices"] else ""
            lines += [f"# {key['says']}{choices}", text if name in examples.get(section, {}) else f"# {text}"]
        if section == "solver":
            lines.append(
                "# A section [solver.settings] has settings of the solver that is named: memory = 20, ..."
            )
        lines.append("")
    return "\n".join(lines)


def describe_keys(structure: str = "chain") -> dict[str, dict[str, dict[str, Any]]]:
    """Return the keys of the sections with default (None: none), choices and meaning; raises as `skeleton`."""
    allowed = keys_of(structure, _shown_features(structure))
    has_forms = structure in ("chain", "taxonomy")
    return {
        section: {
            name: {
                "default": None if key.default is MISSING else key.default,
                "choices": [*STRUCTURED] if name == "loss" and has_forms else [*key.rule.choices],
                "says": key.rule.description,
            }
            for name, key in keys_in(cls).items()
            if name in allowed.get(section, (name,))
        }
        for section, cls in SECTIONS.items()
    }


def _shown_features(structure: str) -> str:
    """Return the kind of features in a skeleton, those of the user's own files; InputError for an unknown structure."""
    if structure not in FEATURES_OF:
        raise InputError(f"structure: expected one of {', '.join(FEATURES_OF)}, got {structure!r}")
    return "windows" if structure == "chain" else "text"
