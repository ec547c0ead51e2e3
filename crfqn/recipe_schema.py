"""What a recipe may say: its sections and keys, with the type and range of each value.

A recipe is a TOML file; here it becomes frozen dataclasses. Anything unknown, of a wrong type or out of range
is a RecipeError that names file, section and key, what came and what is allowed. For `crfqn.recipes`.
"""

import difflib
import math
from collections.abc import Mapping
from dataclasses import MISSING, asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, TypeVar

from crfqn.errors import RecipeError

KINDS: dict[str, tuple[type, ...]] = {
    "text": (str,),
    "number": (int, float),
    "integer": (int,),
    "true or false": (bool,),
}
Section = TypeVar("Section")


def key(
    kind: str,
    default: Any = MISSING,
    *,
    choices: tuple[str, ...] = (),
    low: float | None = None,
    above: float | None = None,
) -> Any:
    """A key of a section: its kind, default, and range (`low` itself is allowed, `above` is not)."""
    return field(default=default, metadata={"kind": kind, "choices": choices, "low": low, "above": above})


@dataclass(frozen=True)
class Split:
    """How items are cut: a seeded `permutation` (its first `train` train) or the data's own (`given`)."""

    kind: str = key("text", choices=("permutation", "given"))
    seed: int | None = key("integer", None, low=0)
    train: int | None = key("integer", None, low=1)


@dataclass(frozen=True)
class Data:
    """A dataset of the registry, or training and test file in CRFsuite's text format beside the recipe."""

    dataset: str = key("text", "")
    train: str = key("text", "")
    test: str = key("text", "")
    split: Split = Split("given")


@dataclass(frozen=True)
class Features:
    """`pixel-pairs`: see `crfqn.pixels.PixelPairs`; `attributes`: the data names its own."""

    kind: str = key("text", choices=("pixel-pairs", "attributes"))
    threshold: float = key("number", 1.0)
    bias: bool = key("true or false", True)


@dataclass(frozen=True)
class Structure:
    kind: str = key("text", "chain", choices=("chain",))


@dataclass(frozen=True)
class Objective:
    l1: float = key("number", 1.0, low=0.0)
    l2: float = key("number", 0.0, low=0.0)


@dataclass(frozen=True)
class Solver:
    """Keys beyond these go to the estimator by name (`settings`), which checks them."""

    name: str = key("text", "prox-qn")
    tol: float = key("number", 1e-3, above=0.0)
    max_iter: int = key("integer", 500, low=1)
    settings: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Output:
    """Where `crfqn train` saves the model, relative to the working folder; empty: `<name>.crfqn`."""

    path: str = key("text", "")


@dataclass(frozen=True)
class Recipe:
    """Everything that training needs. `source` is the file it came from, for messages and relative paths."""

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
        return Path(self.output.path or f"{self.name}.crfqn")

    def as_dict(self) -> dict[str, Any]:
        """The recipe in the layout of its TOML file, JSON-able; `parse_recipe` reads it back."""
        table = asdict(self)
        del table["source"]
        table["solver"].update(table["solver"].pop("settings"))
        if self.features.kind != "pixel-pairs":
            table["features"] = {"kind": self.features.kind}
        return _without_none(table)


SECTIONS = ("data", "features", "structure", "objective", "solver", "output")


def parse_recipe(table: Mapping[str, Any], source: str | Path = "recipe") -> Recipe:
    """Check a recipe read from TOML (or from a model file) and make it a `Recipe`.

    Raises
    ------
    RecipeError
        Names `source`, the section and the key, what came and what is allowed.
    """
    table = dict(table)
    _check_names(source, "the recipe", table, ("name", "title", *SECTIONS))
    for name in ("name", "title"):
        if not isinstance(table.get(name), str) or not table[name]:
            raise RecipeError(
                f"{source}: expected {name} = a text that is not empty, got {_shown(table.get(name))}"
            )
    parts = {name: _table(source, f"[{name}]", table.get(name, {})) for name in SECTIONS}
    split = _table(source, "[data.split]", parts["data"].pop("split", {"kind": "given"}))
    data = _section(
        Data, source, "[data]", parts["data"], split=_section(Split, source, "[data.split]", split)
    )
    features = _section(Features, source, "[features]", parts["features"])
    _check_data(source, data, features, parts["features"])
    solver = parts["solver"]
    known = {name: solver.pop(name) for name in [*solver] if name in ("name", "tol", "max_iter")}
    settings = _pass_through(source, solver)
    return Recipe(
        name=table["name"],
        title=table["title"],
        data=data,
        features=features,
        structure=_section(Structure, source, "[structure]", parts["structure"]),
        objective=_section(Objective, source, "[objective]", parts["objective"]),
        solver=_section(Solver, source, "[solver]", known, settings=settings),
        output=_section(Output, source, "[output]", parts["output"]),
        source=Path(source),
    )


def _check_data(source: str | Path, data: Data, features: Features, table: Mapping[str, Any]) -> None:
    """The rules that span several keys."""
    has_files = bool(data.train or data.test)
    if bool(data.dataset) == has_files:
        raise RecipeError(f"{source}: [data] needs either dataset, or train and test (names of two files)")
    if has_files and not (data.train and data.test):
        raise RecipeError(f"{source}: [data] has only one of train and test; both are needed")
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
    fitting = "attributes" if has_files else "pixel-pairs"
    if features.kind != fitting:
        what = "text files name their attributes" if has_files else f"the dataset {data.dataset!r} has images"
        raise RecipeError(f'{source}: [features] kind = "{features.kind}": {what}; use "{fitting}"')
    if features.kind == "attributes":
        _check_names(source, '[features] with kind = "attributes"', table, ("kind",))


def _section(
    cls: type[Section], source: str | Path, where: str, table: Mapping[str, Any], **ready: Any
) -> Section:
    """The dataclass of one section from its table; `ready` are the fields that were read before."""
    rules = {rule.name: rule for rule in fields(cls) if "kind" in rule.metadata}  # type: ignore[arg-type]
    _check_names(source, where, table, tuple(rules))
    values = {}
    for name, rule in rules.items():
        if name in table:
            values[name] = _checked(f"{source}: {where} {name}", table[name], rule.metadata)
        elif rule.default is MISSING:
            raise RecipeError(f"{source}: {where} lacks the key {name}: expected {_expected(rule.metadata)}")
    return cls(**values, **ready)


def _checked(where: str, value: Any, rule: Mapping[str, Any]) -> Any:
    kinds = KINDS[rule["kind"]]
    is_right = isinstance(value, kinds) and (isinstance(value, bool) <= (bool in kinds))
    if is_right and rule["choices"]:
        is_right = value in rule["choices"]
    if is_right and float in kinds:
        is_right = math.isfinite(value)
    if is_right and rule["low"] is not None:
        is_right = value >= rule["low"]
    if is_right and rule["above"] is not None:
        is_right = value > rule["above"]
    if not is_right:
        raise RecipeError(f"{where} = {_shown(value)}: expected {_expected(rule)}")
    return float(value) if float in kinds else value


def _expected(rule: Mapping[str, Any]) -> str:
    if rule["choices"]:
        return "one of " + ", ".join(f'"{choice}"' for choice in rule["choices"])
    kind = rule["kind"]
    if rule["low"] is not None:
        return f"{kind} >= {rule['low']:g}"
    return f"{kind} > {rule['above']:g}" if rule["above"] is not None else str(kind)


def _pass_through(source: str | Path, settings: Mapping[str, Any]) -> dict[str, Any]:
    for name, value in settings.items():
        if not isinstance(value, (str, int, float, bool)):
            raise RecipeError(
                f"{source}: [solver] {name} = {_shown(value)}: expected a number, a text, true or false"
            )
    return dict(settings)


def _table(source: str | Path, where: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise RecipeError(f"{source}: expected a section {where}, got {_shown(value)}")
    return dict(value)


def _check_names(source: str | Path, where: str, table: Mapping[str, Any], allowed: tuple[str, ...]) -> None:
    for name, value in table.items():
        if name not in allowed:
            near = difflib.get_close_matches(name, allowed, n=1)
            hint = f" (did you mean {near[0]}?)" if near else ""
            raise RecipeError(
                f"{source}: {where} has an unknown key: {name} = {_shown(value)}{hint}; "
                f"allowed: {', '.join(allowed)}"
            )


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return "nothing" if value is None else f'"{value}"' if isinstance(value, str) else f"{value}"


def _without_none(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _without_none(part) for name, part in value.items() if part is not None}
    return value
