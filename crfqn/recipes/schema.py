"""Schema of recipes: sections, their keys, and which of them go together.

A recipe is a TOML file; here it becomes frozen dataclasses, or a RecipeError that names file, section and key.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from crfqn.data.templates.encoding.window_features import WindowFeatures
from crfqn.data.templates.patterns.windows import CHUNKING
from crfqn.errors import InputError, RecipeError
from crfqn.readers.formats.registry import FORMATS
from crfqn.recipes.keys import check_names, key, read_section, read_table, shown

SPARSE_LOSSES = ("logistic", "squared-hinge", "multitask-squared-hinge", "hinge")
# Of dense features: `GeneralizedLeastSquares`, `CalibratedLeastSquares`, `StagewiseRegression`.
LEAST_SQUARES = ("generalized-least-squares", "calibrated-least-squares", "stagewise-regression")


DEFAULT_COLUMNS = {"windows": "w pos"}  # others take those that the data have


@dataclass(frozen=True)
class Split:
    """Split of the items: a seeded `permutation`, its first `train` items for training, or the data's own (`given`)."""

    kind: str = key(
        "text",
        choices=("permutation", "given"),
        says="given: the parts of the data set itself; permutation: `train` items of a seeded order",
    )
    seed: int | None = key("integer", None, low=0, says="of the permutation")
    train: int | None = key("integer", None, low=1, says="items for training, of the permutation")


@dataclass(frozen=True)
class Data:
    """Source of the data: a dataset of the registry, or a training and a test file beside the recipe.

    The files are in the `format` that is named (`readers/formats`), or that their names tell; else CRFsuite's text
    for `attributes`, columns for `windows` and `words`, svmlight's for `given`, `label TAB text` for `text`.
    """

    dataset: str = key("text", "", says="a name of `crfqn data list`, in the place of files")
    train: str = key("text", "", says="a file to train on, relative to this one")
    test: str = key("text", "", says="a file to score the model on; there need be none")
    dev: str = key(
        "text", "", says="a file that the training is stopped by; [solver] has scoring and patience"
    )
    format: str = key("text", "", says="of the files; default: what their names tell, or the features need")
    label: str = key(
        "text", "", says="column of the labels, of tables and CoNLL-U; default: label, tag, ... or upos"
    )
    sentence: str = key(
        "text", "", says="column of tables that tells the items apart; default: sentence, ... or blank lines"
    )
    split: Split = Split("given")


@dataclass(frozen=True)
class Features:
    """Features of the observations; every kind has keys of its own.

    `pixel-pairs`: see `crfqn.data.pixels.PixelPairs`. `attributes`: the data names its own. `windows`: templates
    over the columns of the data, see `crfqn.data.templates.patterns.windows`. `templates`: `templates` names a pattern
    file of CRF++ or Wapiti beside the recipe, `shapes` columns whose forms are features (`crfqn.Templates`). `words`:
    the word (the first column) with its beginning, its end and its shape, the words around it, and the other columns
    with their neighbours, see `crfqn.data.templates.patterns.words`. `given`: the numbers of the data, if need be each
    feature divided by its largest size in the training part (`max-abs`). `text`: counts of words, see
    `crfqn.recipes.document_features.TextFeatures`.
    """

    kind: str = key(
        "text",
        choices=("pixel-pairs", "attributes", "windows", "templates", "words", "given", "text"),
        says="how observations become numbers",
    )
    threshold: float = key("number", 1.0, says="grey values from here on are on")
    bias: bool = key("true or false", True, says="one feature more, which is always on")
    columns: str = key(
        "text", "", says="names of the columns before the label; default: those of the file, w pos of windows"
    )
    templates: str = key(
        "text", CHUNKING, says="features of the columns: w[-1] is the word before, w[-1]|w[0] the pair"
    )
    ends: bool = key(
        "true or false", True, says="whether places beyond the ends of an item have a value of their own"
    )
    shapes: str = key("text", "", says="columns whose forms are features: prefixes, suffixes, shape, ...")
    min_count: int = key("integer", 1, low=1, says="leave out features at fewer positions")
    n_hashed: int | None = key(
        "integer", None, low=1, says="so many columns for all features, by hashing, without names"
    )
    scale: str = key(
        "text",
        "none",
        choices=("none", "max-abs"),
        says="max-abs divides each feature by its largest size in the training part",
    )
    weighting: str = key(
        "text", "tf-idf", choices=("tf-idf", "count", "binary"), says="what a word in a text counts"
    )
    norm: str = key("text", "l2", choices=("l2", "none"), says="l2 makes all texts equally long")
    min_df: int = key("integer", 1, low=1, says="leave out words of fewer texts")
    sublinear_tf: bool = key("true or false", False, says="1 + log(count) in the place of counts")

    @property
    def column_names(self) -> list[str]:
        """Names of the columns that are read, without the label; [] for all that the data have."""
        return (self.columns or DEFAULT_COLUMNS.get(self.kind, "")).split()


@dataclass(frozen=True)
class Structure:
    """Structure of the labels: `chain`, `taxonomy`, `flat` or `ranking`.

    In a chain every position has a label; over a taxonomy and flat every document has one. A ranking's documents have
    several, which the data separate by commas, as in svmlight's format for several labels.

    For data of one's own, `taxonomy` names a file beside the recipe (see `read_taxonomy_file`); without it
    the labels are paths in the taxonomy, their parts separated by `separator`.
    """

    kind: str = key(
        "text", "chain", choices=("chain", "taxonomy", "flat", "ranking"), says="how labels hang together"
    )
    labels: str = key("text", "leaves", choices=("leaves", "nodes"), says="what an item can be labelled by")
    taxonomy: str | None = key("text", None, says="a file with the tree; without it labels are paths in it")
    separator: str | None = key("text", None, says="between the parts of such a path; default: /")


FLAT_LOSSES = ("squared-hinge", "multitask-squared-hinge")


@dataclass(frozen=True)
class Objective:
    """Objective of the training: loss and penalty, which weights a chain may have, intercepts and weights of classes.

    Strengths that are not given are those that the estimator has by default; l1 and group_l1 may be "auto".
    """

    l1: float | str | None = key(
        "number", None, low=0.0, words=("auto",), says="L1 penalty: larger means fewer weights"
    )
    l2: float | None = key("number", None, low=0.0, says="L2 penalty: larger means smaller weights")
    group_l1: float | str | None = key(
        "number", None, low=0.0, words=("auto",), says="penalty of whole features: larger means fewer of them"
    )
    loss: str = key(
        "text",
        "logistic",
        choices=(*SPARSE_LOSSES, *LEAST_SQUARES),
        says="what is minimised besides the penalty",
    )
    penalty: str | None = key(
        "text",
        None,
        choices=("l1", "elastic-net", "l2", "l1/l2", "l1/linf", "sparse-group"),
        says="of single weights, or of the rows of features",
    )
    threshold: str = key("text", "item", choices=("item", "label"), says="how a set is cut off a ranking")
    group_norm: str = key(
        "text", "l2", choices=("l2", "linf"), says="the norm of a feature's weights in group_l1"
    )
    all_possible_states: bool = key(
        "true or false", True, says="weights also for pairs of feature and label that never occur"
    )
    all_possible_transitions: bool = key(
        "true or false", True, says="the same for pairs of neighbouring labels"
    )
    fit_intercept: bool = key("true or false", False, says="a constant for each label")
    penalize_intercept: bool = key("true or false", False, says="whether the penalty is on it too")
    class_weight: str = key(
        "text",
        "none",
        choices=("none", "balanced"),
        says="balanced: rare labels count as much as frequent ones",
    )


@dataclass(frozen=True)
class Solver:
    """Solver and when it stops; keys beyond these (`settings`) are parameters of the estimator, which checks them."""

    name: str = key("text", "auto", says="auto chooses by penalty, sizes and density")
    tol: float = key("number", 1e-3, above=0.0, says="relative distance from the optimum")
    stop: str = key(
        "text", "estimate", choices=("estimate", "certificate"), says="certificate: by a proof only"
    )
    max_iter: int = key("integer", 500, low=1, says="iterations at most")
    settings: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Output:
    """File to which `crfqn train` saves the model, relative to the working folder; empty: `<name>.crfqn`."""

    path: str = key("text", "", says="the model file; default: NAME.crfqn")


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
