"""Recipes: their sections and keys, and which of them go together.

A recipe is a TOML file; here it becomes frozen dataclasses, or a RecipeError that names file, section and key.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from crfqn.data.templates.vocabulary import WindowFeatures
from crfqn.errors import InputError, RecipeError
from crfqn.readers.formats.registry import FORMATS
from crfqn.recipes.schema.keys import check_names, read_section, read_table, shown
from crfqn.recipes.schema.sections import (
    FLAT_LOSSES,
    LEAST_SQUARES,
    Data,
    Features,
    Objective,
    Output,
    Solver,
    Split,
    Structure,
)


@dataclass(frozen=True)
class Recipe:
    """Recipe: everything that training needs. `source` is the file it came from, for messages and relative paths."""

    name: str
    title: str
    data: Data
    features: Features
    structure: Structure
    objective: Objective
    solver: Solver
    output: Output
    source: Path

    @property
    def output_path(self) -> Path:
        """File to which `crfqn train` saves the model."""
        return Path(self.output.path or f"{self.name}.crfqn")

    def as_dict(self) -> dict[str, Any]:
        """Return the recipe in the layout of its TOML file, JSON-able; `parse_recipe` reads it back."""
        table = asdict(self)
        del table["source"]
        table["solver"].update(table["solver"].pop("settings"))
        for section, names in keys_of(self.structure.kind, self.features.kind).items():
            table[section] = {name: table[section][name] for name in names}
        return _without_none(table)


# Keys that some kinds have and others have not, and which features go with which structure.
FEATURE_KEYS = {
    "pixel-pairs": ("kind", "threshold", "bias"),
    "attributes": ("kind",),
    "windows": ("kind", "columns", "templates", "ends"),
    "templates": ("kind", "columns", "templates", "shapes", "min_count", "n_hashed"),
    "words": ("kind", "columns", "min_count", "n_hashed"),
    "given": ("kind", "scale"),
    "text": ("kind", "weighting", "norm", "min_df", "sublinear_tf"),
}
STRUCTURE_KEYS = {
    "chain": ("kind",),
    "taxonomy": ("kind", "labels", "taxonomy", "separator"),
    "flat": ("kind",),
    "ranking": ("kind",),
}
STRENGTHS = ("l1", "l2", "group_l1")
OF_ITEMS = ("fit_intercept", "penalize_intercept", "class_weight")
OBJECTIVE_KEYS = {
    "chain": ("loss", *STRENGTHS, "group_norm", "all_possible_states", "all_possible_transitions"),
    "taxonomy": ("loss", *STRENGTHS, "group_norm", *OF_ITEMS),
    "flat": ("loss", "penalty", *STRENGTHS, *OF_ITEMS),
    "ranking": ("penalty", *STRENGTHS, "threshold", *OF_ITEMS),
}
FEATURES_OF = {
    "chain": ("pixel-pairs", "attributes", "windows", "templates", "words"),
    "taxonomy": ("given", "text"),
    "flat": ("given", "text"),
    "ranking": ("given", "text"),
}
SECTIONS = ("data", "features", "structure", "objective", "solver", "output")


def parse_recipe(table: Mapping[str, Any], source: str | Path = "recipe") -> Recipe:
    """Return the `Recipe` that a table read from TOML (or from a model file) describes, after checking it.

    Raises
    ------
    RecipeError
        Names `source`, the section and the key, what came and what is allowed.
    """
    table = dict(table)
    check_names(source, "the recipe", table, ("name", "title", *SECTIONS))
    for name in ("name", "title"):
        if not isinstance(table.get(name), str) or not table[name]:
            raise RecipeError(
                f"{source}: expected {name} = a text that is not empty, got {shown(table.get(name))}"
            )
    parts = {name: read_table(source, f"[{name}]", table.get(name, {})) for name in SECTIONS}
    split = read_table(source, "[data.split]", parts["data"].pop("split", {"kind": "given"}))
    data = read_section(
        Data, source, "[data]", parts["data"], split=read_section(Split, source, "[data.split]", split)
    )
    features = read_section(Features, source, "[features]", parts["features"])
    structure = read_section(Structure, source, "[structure]", parts["structure"])
    objective = read_section(Objective, source, "[objective]", parts["objective"])
    _check_data(source, data)
    _check_kinds(source, data, features, structure, objective)
    _check_keys(source, parts, structure.kind, features.kind)
    if features.kind == "windows":
        _check_templates(source, features)
    if features.kind == "templates" and "templates" not in parts["features"]:
        raise RecipeError(
            f"{source}: [features] lacks the key templates: expected the name of a pattern file"
        )
    solver = parts["solver"]
    known = {name: solver.pop(name) for name in [*solver] if name in ("name", "tol", "stop", "max_iter")}
    settings = _pass_through(source, solver)
    return Recipe(
        name=table["name"],
        title=table["title"],
        data=data,
        features=features,
        structure=structure,
        objective=objective,
        solver=read_section(Solver, source, "[solver]", known, settings=settings),
        output=read_section(Output, source, "[output]", parts["output"]),
        source=Path(source),
    )


def keys_of(structure: str, features: str) -> dict[str, tuple[str, ...]]:
    """Return the keys of the sections that depend on the kinds of structure and features."""
    return {
        "features": FEATURE_KEYS[features],
        "structure": STRUCTURE_KEYS[structure],
        "objective": OBJECTIVE_KEYS[structure],
    }


def _check_keys(source: str | Path, parts: Mapping[str, Any], structure: str, features: str) -> None:
    """Check that the sections have only keys of their kinds."""
    for name, allowed in keys_of(structure, features).items():
        kind = f'kind = "{features if name == "features" else structure}"'
        owner = "[structure] " if name == "objective" else ""
        check_names(source, f"[{name}] with {owner}{kind}", parts[name], allowed)


def _check_data(source: str | Path, data: Data) -> None:
    """Check the rules that span several keys of [data]."""
    has_files = bool(data.train or data.test)
    if bool(data.dataset) == has_files:
        raise RecipeError(f"{source}: [data] needs either dataset, or train and test (names of two files)")
    if has_files and not data.train:
        raise RecipeError(f"{source}: [data] has a test file and no train, a file to train on")
    if data.format and not has_files:
        raise RecipeError(f"{source}: [data] format is that of files (train, test), not of a dataset")
    if data.format and data.format not in FORMATS:
        raise RecipeError(
            f"{source}: [data] format = {shown(data.format)}: expected one of {', '.join(FORMATS)}"
        )
    split = data.split
    if split.kind == "permutation" and (split.seed is None or split.train is None or has_files):
        raise RecipeError(
            f'{source}: [data.split] kind = "permutation" needs seed and train (items for training) and a '
            f"dataset in [data]"
        )
    if split.kind == "given" and (split.seed is not None or split.train is not None):
        raise RecipeError(
            f'{source}: [data.split] seed and train belong to kind = "permutation", not to "given"'
        )


def _check_kinds(
    source: str | Path, data: Data, features: Features, structure: Structure, objective: Objective
) -> None:
    """Check that the kinds of features, structure, data and loss go together."""
    choices = FEATURES_OF[structure.kind]
    if structure.kind == "chain" and features.kind not in choices:
        raise RecipeError(
            f'{source}: [features] kind = "{features.kind}" is for single items, not for sequences; expected '
            f'[structure] kind = "taxonomy", "flat" or "ranking", got "chain"'
        )
    if features.kind not in choices:
        raise RecipeError(
            f'{source}: [features] kind = "{features.kind}" is for sequences, not for [structure] kind = '
            f'"{structure.kind}"; use "given" (numbers) or "text"'
        )
    fitting = "attributes" if data.train else "pixel-pairs"
    if structure.kind == "chain" and features.kind not in (fitting, "windows", "templates", "words"):
        what = (
            "text files name their attributes" if data.train else f"the dataset {data.dataset!r} has images"
        )
        columns = "for files of columns" if data.train else "if it has columns"
        or_columns = f'or "windows", "templates" or "words" {columns}'
        raise RecipeError(
            f'{source}: [features] kind = "{features.kind}": {what}; use "{fitting}", {or_columns}'
        )
    flat = (*FLAT_LOSSES, *LEAST_SQUARES)
    if objective.loss in flat and structure.kind in ("chain", "taxonomy"):
        raise RecipeError(
            f'{source}: [objective] loss = "{objective.loss}" is for [structure] kind = "flat"; expected "logistic" or '
            f'"hinge" for "{structure.kind}"'
        )
    for name in ("taxonomy", "separator"):
        value = getattr(structure, name)
        if value is not None and data.dataset:
            raise RecipeError(
                f'{source}: [structure] {name} = "{value}" is for files of your own; the dataset '
                f"{data.dataset!r} brings its taxonomy"
            )
        if value == "":
            raise RecipeError(f'{source}: [structure] {name} = "": expected a text that is not empty')


def _check_templates(source: str | Path, features: Features) -> None:
    """Check that the window templates can be read, and ask for columns that are there."""
    try:
        WindowFeatures.parse(features.templates, features.column_names)
    except InputError as error:
        raise RecipeError(f"{source}: [features] templates: {error}") from error


def _pass_through(source: str | Path, settings: Mapping[str, Any]) -> dict[str, Any]:
    for name, value in settings.items():
        if not isinstance(value, (str, int, float, bool)):
            raise RecipeError(
                f"{source}: [solver] {name} = {shown(value)}: expected a number, a text, true or false"
            )
    return dict(settings)


def _without_none(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _without_none(part) for name, part in value.items() if part is not None}
    return value
