"""Recipes in TOML: sections of typed keys, and the checks of their combinations.

The keys are declared in `crfqn.data_options`. An unknown key, a wrong type and a value out of range raise RecipeError,
which names file, section and key, the value and the allowed values.
"""

import difflib
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, asdict, dataclass
from pathlib import Path
from typing import Any, TypeVar

from crfqn.choices import STRUCTURED, UNICODE_RULES
from crfqn.data.templates.vocabulary import WindowFeatures
from crfqn.data_options import (
    AUTO_NGRAMS,
    FEATURES_OF,
    OF_TEMPLATES,
    SECTIONS,
    DataSection,
    FeaturesSection,
    ObjectiveSection,
    OutputSection,
    SolverSection,
    SplitSection,
    StructureSection,
    keys_in,
)
from crfqn.errors import InputError, RecipeError
from crfqn.readers.registry import FORMATS

TOML_TYPES = {float: "number", bool: "true or false", int: "integer", str: "text"}
Section = TypeVar("Section")


@dataclass(frozen=True)
class Recipe:
    """A recipe: all settings of a training. `source` is its file, for messages and relative paths."""

    name: str
    title: str
    data: DataSection
    features: FeaturesSection
    structure: StructureSection
    objective: ObjectiveSection
    solver: SolverSection
    output: OutputSection
    source: Path

    @property
    def output_path(self) -> Path:
        """The file to which `crfqn train` saves the model."""
        return Path(self.output.path or f"{self.name}.crfqn")

    def as_dict(self) -> dict[str, Any]:
        """Return the recipe as JSON values in the layout of its TOML file; `parse_recipe` reads it back."""
        table = asdict(self)
        del table["source"]
        table["solver"].update(table["solver"].pop("settings"))
        for section, names in keys_of(self.structure.kind, self.features.kind).items():
            table[section] = {name: table[section][name] for name in names}

        def without_none(value: Any) -> Any:
            if not isinstance(value, Mapping):
                return value
            return {name: without_none(part) for name, part in value.items() if part is not None}

        return without_none(table)


def parse_recipe(table: Mapping[str, Any], source: str | Path = "recipe") -> Recipe:
    """Return the checked `Recipe` of a table from TOML or a model file.

    RecipeError names `source`, the section and the key, the value and the allowed values.
    """
    check_keys(source, "the recipe", table, ("name", "title", *SECTIONS))
    for name in ("name", "title"):
        if not isinstance(table.get(name), str) or not table[name]:
            raise RecipeError(
                f"{source}: expected {name} = a text that is not empty, got {shown(table.get(name))}"
            )
    parts = {name: _read_table(source, f"[{name}]", table.get(name, {})) for name in SECTIONS}
    split = _read_table(source, "[data.split]", parts["data"].pop("split", {"kind": "given"}))
    solver_keys = keys_in(SolverSection)
    settings = {name: parts["solver"].pop(name) for name in [*parts["solver"]] if name not in solver_keys}
    nested: dict[str, dict[str, Any]] = {
        "data": {"split": _read_section(SplitSection, source, "[data.split]", split)},
        "solver": {"settings": settings},
    }
    sections: dict[str, Any] = {
        name: _read_section(cls, source, f"[{name}]", parts[name], **nested.get(name, {}))
        for name, cls in SECTIONS.items()
    }
    recipe = Recipe(table["name"], table["title"], **sections, source=Path(source))
    for text in _mistakes(recipe):
        raise RecipeError(f"{source}: {text}")
    features, structure = recipe.features, recipe.structure.kind
    for name, allowed in keys_of(structure, features.kind).items():
        kind = f'kind = "{features.kind if name == "features" else structure}"'
        owner = "[structure] " if name == "objective" else ""
        check_keys(source, f"[{name}] with {owner}{kind}", parts[name], allowed)
    if features.kind == "windows":
        try:
            WindowFeatures.parse(features.templates, features.column_names)
        except InputError as error:
            raise RecipeError(f"{source}: [features] templates: {error}") from error
    if features.kind == "templates" and "templates" not in parts["features"]:
        raise RecipeError(
            f"{source}: [features] lacks the key templates: expected the name of a pattern file"
        )
    for name, value in settings.items():
        if name == "settings":
            _read_table(source, "[solver.settings]", value)
        elif not isinstance(value, (str, int, float, bool)):
            raise RecipeError(
                f"{source}: [solver] {name} = {shown(value)}: expected a number, a text, true or false"
            )
    return recipe


def keys_of(structure: str, features: str) -> dict[str, tuple[str, ...]]:
    """Return the keys of the sections that depend on the kinds of structure and features."""
    objective = sorted(keys_in(ObjectiveSection, structure), key=lambda name: name not in ("loss", "penalty"))
    return {
        "features": (*keys_in(FeaturesSection, features),),
        "structure": (*keys_in(StructureSection, structure),),
        "objective": (*objective,),
    }


def _read_section(
    cls: type[Section], source: str | Path, where: str, table: Mapping[str, Any], **values: Any
) -> Section:
    """Return a section as a dataclass, from its table and the fields `values`, which have been read before."""
    declared = keys_in(cls)
    check_keys(source, where, table, tuple(declared))
    for name, key in declared.items():
        rule = key.rule
        if rule.choices:
            expected = "one of " + ", ".join(map(shown, rule.choices))
        else:
            words = "".join(f"{shown(word)} or " for word in rule.words)
            expected = words + (TOML_TYPES.get(rule.kind) or rule.expects) + rule.limit
        if name in table:
            value = table[name]
            if not rule.allows(value):
                raise RecipeError(f"{source}: {where} {name} = {shown(value)}: expected {expected}")
            values[name] = float(value) if rule.kind is float and not isinstance(value, str) else value
        elif key.default is MISSING:
            raise RecipeError(f"{source}: {where} lacks the key {name}: expected {expected}")
    return cls(**values)


def _read_table(source: str | Path, where: str, value: object) -> dict[str, Any]:
    """Return a copy of a TOML table; RecipeError if the value is not a table."""
    if not isinstance(value, Mapping):
        raise RecipeError(f"{source}: expected a section {where}, got {shown(value)}")
    return dict(value)


def check_keys(source: str | Path, where: str, table: Mapping[str, Any], allowed: tuple[str, ...]) -> None:
    """Raise RecipeError for keys that are not allowed."""
    for name, value in table.items():
        if name not in allowed:
            near = difflib.get_close_matches(name, allowed, n=1)
            hint = f" (did you mean {near[0]}?)" if near else ""
            raise RecipeError(
                f"{source}: {where} has an unknown key: {name} = {shown(value)}{hint}; "
                f"allowed: {', '.join(allowed)}"
            )


def shown(value: object) -> str:
    """Return a value in TOML."""
    if isinstance(value, bool):
        return str(value).lower()
    return "nothing" if value is None else f'"{value}"' if isinstance(value, str) else f"{value}"


def _mistakes(recipe: Recipe) -> Iterator[str]:
    """Yield messages about keys and kinds of features, structure, data and loss that cannot be combined."""
    data, structure, loss = recipe.data, recipe.structure, recipe.objective.loss
    has_files, split = bool(data.train or data.test), data.split
    if bool(data.dataset) == has_files:
        yield "[data] needs either dataset, or train (the name of a file), with test if there is one"
    if has_files and not data.train:
        yield "[data] has a test file and no train, a file to train on"
    if data.format and not has_files:
        yield "[data] format is that of files (train, test), not of a dataset"
    if data.dataset and (data.missing, data.label_names) != (None, None):
        yield "[data] missing and label_names are for the labels of files (train, test), not of a dataset"
    if not data.header and not data.label:
        yield "[data] header = false needs label, the number of the column of labels"
    if data.format and data.format not in FORMATS:
        yield f"[data] format = {shown(data.format)}: expected one of {', '.join(FORMATS)}"
    if split.kind == "permutation" and (split.seed is None or split.train is None or has_files):
        yield '[data.split] kind = "permutation" needs seed and train (items for training) and a dataset in [data]'
    if split.kind == "given" and (split.seed is not None or split.train is not None):
        yield '[data.split] seed and train belong to kind = "permutation", not to "given"'

    is_chain, kind = structure.kind == "chain", recipe.features.kind
    of_kind = f'[features] kind = "{kind}"'
    if is_chain and kind not in FEATURES_OF["chain"]:
        yield (
            f'{of_kind} is for single items, not for sequences; expected [structure] kind = "taxonomy", "flat" or '
            '"ranking", got "chain"'
        )
    if not is_chain and kind not in FEATURES_OF[structure.kind]:
        yield (
            f'{of_kind} is for sequences, not for [structure] kind = "{structure.kind}"; use "given" (numbers), '
            '"text" or "table"'
        )
    features = recipe.features
    if features.gazetteers and kind not in OF_TEMPLATES:
        yield f'[features] gazetteers: expected kind = "words" or "templates", models of words, got kind = "{kind}"'
    if features.analyzer == AUTO_NGRAMS and tuple(features.ngram_range) != (1, 1):
        yield f'[features] ngram_range: analyzer = "{AUTO_NGRAMS}" chooses it; leave it out'
    if "char" in features.analyzer and features.words != UNICODE_RULES:
        yield f'[features] words = "{features.words}": analyzer = "{features.analyzer}" splits no text into words'
    fitting = "attributes" if data.train else "pixel-pairs"
    if is_chain and kind not in (fitting, "windows", "templates", "words"):
        has = "text files name their attributes" if data.train else f"the dataset {data.dataset!r} has images"
        columns = "for files of columns" if data.train else "if it has columns"
        yield f'{of_kind}: {has}; use "{fitting}", or "windows", "templates" or "words" {columns}'
    if loss not in STRUCTURED and structure.kind in ("chain", "taxonomy"):
        losses = " or ".join(f'"{name}"' for name in STRUCTURED)
        yield (
            f'[objective] loss = "{loss}" is for [structure] kind = "flat"; expected {losses} for '
            f'"{structure.kind}"'
        )
    for name, value in (("taxonomy", structure.taxonomy), ("separator", structure.separator)):
        if value is not None and data.dataset:
            yield (
                f'[structure] {name} = "{value}" is for files of your own; the dataset {data.dataset!r} brings its '
                "taxonomy"
            )
        if value == "":
            yield f'[structure] {name} = "": expected a text that is not empty'
