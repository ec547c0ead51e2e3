"""Builds the untrained estimator of a recipe."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from crfqn.choices import BY_FEATURE, LOSSES, STRENGTHS
from crfqn.data_options import ObjectiveSection, keys_in
from crfqn.errors import InputError, RecipeError
from crfqn.parameters import OPTIONS, PARAMETERS, Parameter
from crfqn.recipes.prepared import Prepared
from crfqn.recipes.schema import TOML_TYPES, Recipe, check_keys, shown
from crfqn.registry import find

if TYPE_CHECKING:
    from crfqn.estimators.estimator import Estimator

CLASS_OF_STRUCTURE = {"chain": "ChainCRF", "taxonomy": "TaxonomyCRF", "ranking": "MultilabelRanker"}
# Parameters of the estimator that are set by other sections than [solver], or by the data.
SET_ELSEWHERE = {
    "solver",
    "callback",
    "taxonomy",
    "labels",
    "separator",
    "min_count",
    *keys_in(ObjectiveSection),
}


def build_estimator(recipe: Recipe, **overrides: Any) -> Estimator:
    """Return the untrained estimator of a recipe; `overrides` that are not None replace its parameters.

    Another `penalty` keeps the strengths that it has. A recipe over a taxonomy that is not inferred from the labels
    needs `taxonomy=prepared.given_taxonomy`. RecipeError for unknown settings of the solver section, InputError for
    overrides that the structure does not have.
    """
    overrides = {name: value for name, value in overrides.items() if value is not None}
    for name in (name for name, rule in PARAMETERS.items() if rule.reader is not None):
        values = overrides.get(name)
        if isinstance(values, list):  # an option that was given several times
            is_mixed = any(isinstance(value, str) for value in values[:-1])
            if is_mixed or (isinstance(values[-1], str) and len(values) > 1):
                raise InputError(f"{name}: expected either weights of labels or 'balanced', got {values}")
            overrides[name] = (
                values[0]
                if isinstance(values[0], str)
                else {key: by for part in values for key, by in part.items()}
            )
    loss = overrides.get("loss", recipe.objective.loss)
    structure, objective = recipe.structure.kind, keys_in(ObjectiveSection, recipe.structure.kind)
    kind = _class_of(structure, loss)
    parameters = kind().get_params().keys()
    allowed = sorted(parameters - SET_ELSEWHERE | {"settings"})
    for name in recipe.solver.settings:
        if name not in allowed:
            raise RecipeError(
                f"{recipe.source}: [solver] has an unknown key: {name}; allowed: name, {', '.join(allowed)}"
            )
    for name in sorted(overrides.keys() - parameters - {"loss"}) + ["loss"] * ("loss" in overrides):
        if name not in objective:
            taken = ", ".join(name for row in OPTIONS.values() for name in row if name in parameters)
            raise InputError(
                f'{name}: recipes with [structure] kind = "{structure}" have none, '
                f"got {overrides[name]!r}; {kind.__name__} takes {taken}"
            )
    for name in ("penalty", "l1", "group_l1"):
        is_named = name in overrides or getattr(recipe.objective, name) is not None
        if loss in LOSSES and not LOSSES[loss].supports_l1 and is_named:
            raise InputError(f'{name}: the loss "{loss}" has a ridge only, whose strength is l2')
    settings = _settings(recipe)
    if "penalty" in overrides:  # another penalty may lack strengths of the recipe
        from crfqn.estimators.automatic import named_penalty

        for name in {*STRENGTHS} - {*named_penalty(overrides["penalty"]).strengths, "l2"}:
            settings.pop(name, None)
    settings |= {**recipe.solver.settings, **overrides}
    changes = settings.pop("settings", None)
    if changes and settings["solver"] == recipe.solver.name:
        from crfqn.estimators.automatic import AUTO, named_solver

        where, solver = "[solver.settings]", settings["solver"]
        if solver == AUTO or "solver" not in parameters:
            names = ", ".join(sorted({*getattr(kind, "SOLVERS", ())} - {AUTO}))
            raise RecipeError(
                f"{recipe.source}: {where} needs [solver] name, the solver that has them; expected "
                f"{names or f'{kind.__name__} has one only'}"
            )
        part = named_solver(solver, kind.SOLVERS, settings.get("random_state"))
        settings["solver"] = _changed(part, changes, str(recipe.source), where)
    return kind(**{name: value for name, value in settings.items() if name in parameters})


def by_feature_in_columns(model: Estimator, prepared: Prepared) -> None:
    """Convert parameters with a value per feature from names to columns, if the features are learnt from the data and
    have no names in the estimator."""
    features = prepared.features
    for name, row in BY_FEATURE.items():
        value = getattr(model, name, None)
        if isinstance(value, Mapping) and features is not None and features.names is not None:
            by_name = find(row.in_columns)(value, features.names, len(features.names))
            columns = np.full(features.n_columns, row.unnamed)
            columns[features.columns] = by_name
            setattr(model, name, columns)


def _changed(part: Any, changes: Mapping[str, Any], source: str, where: str) -> Any:
    """Return a solver, or a part of one, with the values of a table."""
    check_keys(source, where, changes, tuple(rule.name for rule in fields(part)))
    values = {}
    for name, value in changes.items():
        default = getattr(part, name)
        has_fields = is_dataclass(default)
        rule = (
            Parameter("", type(default))
            if type(default) in TOML_TYPES
            else Parameter("", expects="number or text")
        )
        if has_fields != isinstance(value, Mapping) or not (has_fields or rule.allows(value)):
            expected = (
                f"a section [{where[1:-1]}.{name}]" if has_fields else TOML_TYPES.get(rule.kind, rule.expects)
            )
            raise RecipeError(f"{source}: {where} {name} = {shown(value)}: expected {expected}")
        values[name] = _changed(default, value, source, f"[{where[1:-1]}.{name}]") if has_fields else value
    try:
        return replace(part, **values)
    except InputError as error:
        raise RecipeError(f"{source}: {where} {error}") from error


def _class_of(structure: str, loss: str) -> type[Estimator]:
    """Return the class of a recipe's estimator, which for flat labels depends on the loss."""
    # MulticlassClassifier checks the loss and reports an unknown one.
    flat = LOSSES[loss].estimator if loss in LOSSES else "MulticlassClassifier"
    return find(CLASS_OF_STRUCTURE.get(structure, flat))


def _settings(recipe: Recipe) -> dict[str, Any]:
    """Return the parameters that the recipe sets; others have the defaults of the estimator."""
    structure, objective, solver = recipe.structure, recipe.objective, recipe.solver
    settings = {name: getattr(objective, name) for name in keys_in(ObjectiveSection, structure.kind)}
    settings = {name: value for name, value in settings.items() if value is not None}
    for name, row in BY_FEATURE.items():
        if row.read_file and isinstance(settings.get(name), str):
            settings[name] = find(row.read_file)(recipe.source.parent / settings[name])
    if settings.get("class_weight") == "none":
        del settings["class_weight"]
    if structure.kind == "flat" and "penalty" not in settings:  # keep it for another loss on the command line
        default = _class_of("flat", objective.loss)().get_params().get("penalty")
        settings |= {} if default is None else {"penalty": default}
    if recipe.features.kind == "attributes":
        settings["min_count"] = recipe.features.min_count
    if structure.kind == "taxonomy":
        settings |= {"labels": structure.labels, "separator": structure.separator or "/"}
    stopping = {"tol": solver.tol, "stop": solver.stop, "max_iter": solver.max_iter}
    return settings | stopping | {"solver": solver.name}
