"""Schema of recipes: sections, their keys, and which of them go together.

A recipe is a TOML file; here it becomes frozen dataclasses, or a RecipeError that names file, section and key.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import MISSING, asdict, dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

from crfqn.choices import LOSSES, STRUCTURED
from crfqn.data.templates.vocabulary import WindowFeatures
from crfqn.data.templates.windows import CHUNKING
from crfqn.data.tokenizers import Tokenizer
from crfqn.data.tokens import BLANKS, UNICODE
from crfqn.errors import InputError, RecipeError
from crfqn.readers.registry import FORMATS
from crfqn.recipes.keys import check_names, key, keys_in, parameter, read_section, read_table, shown

DEFAULT_COLUMNS = {"windows": "w pos"}  # others take those that the data have


@dataclass(frozen=True)
class SplitSection:
    """Split of the items: a seeded `permutation`, its first `train` items for training, or the data's own (`given`)."""

    kind: str = key(
        MISSING,
        "given: the parts of the data set itself; permutation: `train` items of a seeded order",
        choices=("permutation", "given"),
    )
    seed: int | None = key(None, "of the permutation", int, low=0)
    train: int | None = key(None, "items for training, of the permutation", int, low=1)


def _are_names(value: Any) -> bool:
    """Return whether a value names a file, or several."""
    return isinstance(value, str) or (
        isinstance(value, list) and all(isinstance(name, str) and name for name in value)
    )


FILES: dict[str, Any] = {"kind": object, "accepts": _are_names, "expects": "text or a list of texts"}


@dataclass(frozen=True)
class DataSection:
    """Source of the data: a dataset of the registry, or training and test files beside the recipe.

    The files are in the `format` that is named (`readers/registry.py`), or that their names tell; else CRFsuite's text
    for `attributes`, columns for `windows` and `words`, svmlight's for `given`, `label TAB text` for `text`.
    """

    dataset: str = key("", "a name of `crfqn data list`, in the place of files")
    train: str | Sequence[str] = key(
        "", "a file to train on, relative to this one; several: a list, a folder or a pattern", **FILES
    )
    test: str | Sequence[str] = key(
        "", "a file to score the model on, or several; there need be none", **FILES
    )
    dev: str | Sequence[str] = key(
        "", "a file that the training is stopped by, or several; [solver] has scoring and patience", **FILES
    )
    format: str = key("", "of the files; default: what their names tell, or the features need")
    label: str = key("", "column of the labels, of tables and CoNLL-U; default: label, tag, ... or upos")
    sentence: str = key(
        "", "column of tables that tells the items apart; default: sentence, ... or blank lines"
    )
    header: bool = key(
        True, "whether the first line of a table names the columns; else they are numbers from 1"
    )
    drop: str = key("", "columns of a table that are left out, separated by commas; of features table")
    text: str = key("", "column of a table that has the texts; of features text; default: text")
    separator: str = key(
        "", "between the columns of CoNLL's files; default: tabs where all lines have as many, else blanks"
    )
    encoding: str = key("utf-8", "of the files; bytes: UTF-8 with other bytes between, as they are")
    split: SplitSection = SplitSection("given")
    tokens: Tokenizer | None = None  # no key: what cuts raw text for the recipe's model

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

    kind: str = key(
        MISSING,
        "how observations become numbers",
        choices=("pixel-pairs", "attributes", "windows", "templates", "words", "given", "text", "table"),
    )
    threshold: float = key(1.0, "grey values from here on are on", of="pixel-pairs")
    bias: bool = key(True, "one feature more, which is always on", of="pixel-pairs")
    columns: str = key(
        "",
        "names of the columns before the label; default: those of the file, w pos of windows",
        of="windows templates words",
    )
    templates: str = key(
        CHUNKING,
        "features of the columns: w[-1] is the word before, w[-1]|w[0] the pair",
        of="windows templates",
    )
    ends: bool = key(
        True, "whether places beyond the ends of an item have a value of their own", of="windows"
    )
    shapes: str = key("", "columns whose forms are features: prefixes, suffixes, shape, ...", of="templates")
    transitions: bool = key(
        False, "whether neighbouring labels have weights also if the pattern file has no `B`", of="templates"
    )
    min_count: int = key(1, "leave out features at fewer positions", low=1, of="templates words")
    n_hashed: int | None = key(
        None, "so many columns for all features, by hashing, without names", int, low=1, of="templates words"
    )
    scale: str = key(
        "none",
        "max-abs divides each feature by its largest size in the training part",
        choices=("none", "max-abs"),
        of="given",
    )
    weighting: str = key(
        "tf-idf", "what a word in a text counts", choices=("tf-idf", "count", "binary"), of="text"
    )
    words: str = key(
        "unicode",
        "how texts are cut into words: by the rules of Unicode, or at blanks, where they are cut already",
        choices=(UNICODE, BLANKS),
        of="text",
    )
    norm: str = key("l2", "l2 makes all texts equally long", choices=("l2", "none"), of="text")
    min_df: int = key(1, "leave out words of fewer texts", low=1, of="text")
    sublinear_tf: bool = key(False, "1 + log(count) in the place of counts", of="text")

    @property
    def column_names(self) -> list[str]:
        """Names of the columns that are read, without the label; [] for all that the data have."""
        return (self.columns or DEFAULT_COLUMNS.get(self.kind, "")).split()


FEATURES_OF = {
    "chain": ("pixel-pairs", "attributes", "windows", "templates", "words"),
    "taxonomy": ("given", "text", "table"),
    "flat": ("given", "text", "table"),
    "ranking": ("given", "text", "table"),
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


@dataclass(frozen=True)
class ObjectiveSection:
    """Objective of the training: loss and penalty, which weights a chain may have, intercepts and weights of classes.

    Strengths that are not given are those that the estimator has by default; l1 and group_l1 may be "auto".
    """

    l1: float | str | None = parameter("l1")
    l2: float | None = parameter("l2", words=())
    group_l1: float | str | None = parameter("group_l1")
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


SECTIONS: dict[str, type] = {
    "data": DataSection,
    "features": FeaturesSection,
    "structure": StructureSection,
    "objective": ObjectiveSection,
    "solver": SolverSection,
    "output": OutputSection,
}


@dataclass(frozen=True)
class Recipe:
    """Recipe: everything that training needs. `source` is the file it came from, for messages and relative paths."""

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


def parse_recipe(table: Mapping[str, Any], source: str | Path = "recipe") -> Recipe:
    """Return the checked `Recipe` of a table read from TOML or a model file; RecipeError names `source`, the section
    and the key, what came and what is allowed."""
    table = dict(table)
    check_names(source, "the recipe", table, ("name", "title", *SECTIONS))
    for name in ("name", "title"):
        if not isinstance(table.get(name), str) or not table[name]:
            raise RecipeError(
                f"{source}: expected {name} = a text that is not empty, got {shown(table.get(name))}"
            )
    parts = {name: read_table(source, f"[{name}]", table.get(name, {})) for name in SECTIONS}
    split = read_table(source, "[data.split]", parts["data"].pop("split", {"kind": "given"}))
    names = keys_in(SolverSection)
    settings = {name: parts["solver"].pop(name) for name in [*parts["solver"]] if name not in names}
    ready: dict[str, dict[str, Any]] = {
        "data": {"split": read_section(SplitSection, source, "[data.split]", split)},
        "solver": {"settings": settings},
    }
    sections: dict[str, Any] = {
        name: read_section(cls, source, f"[{name}]", parts[name], **ready.get(name, {}))
        for name, cls in SECTIONS.items()
    }
    recipe = Recipe(table["name"], table["title"], **sections, source=Path(source))
    for text in chain(_mistakes_in_data(recipe.data), _mistakes_of_kinds(recipe)):
        raise RecipeError(f"{source}: {text}")
    _check_keys(source, parts, recipe.structure.kind, recipe.features.kind)
    for text in _mistakes_in_templates(recipe.features, "templates" in parts["features"]):
        raise RecipeError(f"{source}: {text}")
    for name, value in settings.items():
        if name == "settings":
            read_table(source, "[solver.settings]", value)
        elif not isinstance(value, (str, int, float, bool)):
            found = f"[solver] {name} = {shown(value)}"
            raise RecipeError(f"{source}: {found}: expected a number, a text, true or false")
    return recipe


def keys_of(structure: str, features: str) -> dict[str, tuple[str, ...]]:
    """Return the keys of the sections that depend on the kinds of structure and features."""
    objective = sorted(keys_in(ObjectiveSection, structure), key=lambda name: name not in ("loss", "penalty"))
    return {
        "features": (*keys_in(FeaturesSection, features),),
        "structure": (*keys_in(StructureSection, structure),),
        "objective": (*objective,),
    }


def _check_keys(source: str | Path, parts: Mapping[str, Any], structure: str, features: str) -> None:
    """Check that the sections have only keys of their kinds."""
    for name, allowed in keys_of(structure, features).items():
        kind = f'kind = "{features if name == "features" else structure}"'
        owner = "[structure] " if name == "objective" else ""
        check_names(source, f"[{name}] with {owner}{kind}", parts[name], allowed)


def _mistakes_in_data(data: DataSection) -> Iterator[str]:
    """Yield what is wrong with several keys of [data]."""
    has_files, split = bool(data.train or data.test), data.split
    if bool(data.dataset) == has_files:
        yield "[data] needs either dataset, or train (the name of a file), with test if there is one"
    if has_files and not data.train:
        yield "[data] has a test file and no train, a file to train on"
    if data.format and not has_files:
        yield "[data] format is that of files (train, test), not of a dataset"
    if not data.header and not data.label:
        yield "[data] header = false needs label, the number of the column of labels"
    if data.format and data.format not in FORMATS:
        yield f"[data] format = {shown(data.format)}: expected one of {', '.join(FORMATS)}"
    if split.kind == "permutation" and (split.seed is None or split.train is None or has_files):
        yield '[data.split] kind = "permutation" needs seed and train (items for training) and a dataset in [data]'
    if split.kind == "given" and (split.seed is not None or split.train is not None):
        yield '[data.split] seed and train belong to kind = "permutation", not to "given"'


def _mistakes_of_kinds(recipe: Recipe) -> Iterator[str]:
    """Yield which kinds of features, structure, data and loss do not go together."""
    data, structure, loss = recipe.data, recipe.structure, recipe.objective.loss
    is_chain, kind = structure.kind == "chain", recipe.features.kind
    of_kind = f'[features] kind = "{kind}"'
    if kind not in FEATURES_OF[structure.kind]:
        yield (
            f'{of_kind} is for single items, not for sequences; expected [structure] kind = "taxonomy", "flat" or '
            f'"ranking", got "chain"'
            if is_chain
            else f'{of_kind} is for sequences, not for [structure] kind = "{structure.kind}"; use "given" (numbers), '
            f'"text" or "table"'
        )
    fitting = "attributes" if data.train else "pixel-pairs"
    if is_chain and kind not in (fitting, "windows", "templates", "words"):
        has = "text files name their attributes" if data.train else f"the dataset {data.dataset!r} has images"
        columns = "for files of columns" if data.train else "if it has columns"
        yield f'{of_kind}: {has}; use "{fitting}", or "windows", "templates" or "words" {columns}'
    if loss not in STRUCTURED and structure.kind in ("chain", "taxonomy"):
        others = " or ".join(f'"{name}"' for name in STRUCTURED)
        yield (
            f'[objective] loss = "{loss}" is for [structure] kind = "flat"; expected {others} for '
            f'"{structure.kind}"'
        )
    for name in ("taxonomy", "separator"):
        value = getattr(structure, name)
        if value is not None and data.dataset:
            yield (
                f'[structure] {name} = "{value}" is for files of your own; the dataset {data.dataset!r} brings its '
                "taxonomy"
            )
        if value == "":
            yield f'[structure] {name} = "": expected a text that is not empty'


def _mistakes_in_templates(features: FeaturesSection, has_templates: bool) -> Iterator[str]:
    """Yield why window templates cannot be read, or ask for columns that are not there; or that there are none."""
    if features.kind == "windows":
        try:
            WindowFeatures.parse(features.templates, features.column_names)
        except InputError as error:
            yield f"[features] templates: {error}"
    if features.kind == "templates" and not has_templates:
        yield "[features] lacks the key templates: expected the name of a pattern file"


def _without_none(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _without_none(part) for name, part in value.items() if part is not None}
    return value
