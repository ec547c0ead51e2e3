"""Estimators as recipes describe them, ready to train."""

from typing import TYPE_CHECKING, Any

from crfqn.errors import InputError, RecipeError
from crfqn.recipes.keys import keys_in
from crfqn.recipes.schema import LEAST_SQUARES, STRENGTHS, Objective, Recipe

if TYPE_CHECKING:
    from crfqn.estimators.base import SparseCRF

# Parameters that other sections set, or the data.
ELSEWHERE = {"solver", "callback", "taxonomy", "labels", "separator", *keys_in(Objective)}


def build_estimator(recipe: Recipe, **overrides: Any) -> "SparseCRF":
    """Return the untrained estimator of a recipe.

    Parameters
    ----------
    recipe : Recipe
    **overrides
        Parameters of the estimator that replace the recipe's; None keeps what the recipe says. Another `penalty` keeps
        the recipe's strengths that it has as well. A recipe over a taxonomy needs that of its data, unless it is
        inferred: `taxonomy=prepared.given_taxonomy`.

    Raises
    ------
    RecipeError
        The solver section has a setting that the estimator does not know.
    InputError
        An override that estimators of this structure do not have.
    """
    given = {name: value for name, value in overrides.items() if value is not None}
    loss = given.get("loss", recipe.objective.loss)
    kind, settings = _kind(recipe, loss), _settings(recipe)
    parameters = kind().get_params().keys()
    allowed = sorted(parameters - ELSEWHERE)
    for name in recipe.solver.settings:
        if name not in allowed:
            raise RecipeError(
                f"{recipe.source}: [solver] has an unknown key: {name}; allowed: name, {', '.join(allowed)}"
            )
    for name in sorted(given.keys() - parameters - {"loss"}) + ["loss"] * ("loss" in given):
        if name not in keys_in(Objective, recipe.structure.kind):
            raise InputError(
                f'{name}: recipes with [structure] kind = "{recipe.structure.kind}" have none, '
                f"got {given[name]!r}"
            )
    for name in ("penalty", "l1", "group_l1"):
        if loss in LEAST_SQUARES and name in (*given, *_given_by(recipe)):
            raise InputError(f'{name}: the loss "{loss}" has a ridge only, whose strength is l2')
    if "penalty" in given:
        settings = _with_strengths_of(given["penalty"], settings)
    both = {**settings, **recipe.solver.settings, **given}
    return kind(**{name: value for name, value in both.items() if name in parameters})


def _kind(recipe: Recipe, loss: str) -> "type[SparseCRF]":
    """Return the class of the recipe's estimator; `loss` decides between the two of flat labels."""
    from crfqn.estimators.chain import ChainCRF
    from crfqn.estimators.least_squares.calibrated import CalibratedLeastSquares
    from crfqn.estimators.least_squares.generalized import GeneralizedLeastSquares
    from crfqn.estimators.least_squares.stagewise import StagewiseRegression
    from crfqn.estimators.multiclass import MulticlassClassifier
    from crfqn.estimators.multiclass_crf import MulticlassCRF
    from crfqn.estimators.multilabel_ranker import MultilabelRanker
    from crfqn.estimators.taxonomy import TaxonomyCRF

    by_loss: dict[str, type[SparseCRF]] = {
        kind.KIND: kind for kind in (GeneralizedLeastSquares, CalibratedLeastSquares, StagewiseRegression)
    }
    kinds: dict[str, type[SparseCRF]] = {
        "chain": ChainCRF,
        "taxonomy": TaxonomyCRF,
        "flat": by_loss.get(loss, MulticlassCRF if loss == "logistic" else MulticlassClassifier),
        "ranking": MultilabelRanker,
    }
    return kinds[recipe.structure.kind]


def _given_by(recipe: Recipe) -> list[str]:
    """The penalty and strengths that a recipe names."""
    return [name for name in ("penalty", *STRENGTHS) if getattr(recipe.objective, name) is not None]


def _settings(recipe: Recipe) -> dict[str, Any]:
    """Return the parameters that the recipe sets; those that it leaves out have the estimator's default."""
    settings = {name: getattr(recipe.objective, name) for name in keys_in(Objective, recipe.structure.kind)}
    settings = {name: value for name, value in settings.items() if value is not None}
    if settings.get("class_weight") == "none":
        del settings["class_weight"]
    if recipe.structure.kind == "flat":  # another loss on the command line keeps it
        default = _kind(recipe, recipe.objective.loss)().get_params().get("penalty")
        settings |= {} if default is None or "penalty" in settings else {"penalty": default}
    if recipe.structure.kind == "taxonomy":
        settings["labels"] = recipe.structure.labels
        settings["separator"] = recipe.structure.separator or "/"
    return settings | {
        "solver": recipe.solver.name,
        "tol": recipe.solver.tol,
        "stop": recipe.solver.stop,
        "max_iter": recipe.solver.max_iter,
    }


def _with_strengths_of(penalty: Any, settings: dict[str, Any]) -> dict[str, Any]:
    """Return the settings without the strengths that a penalty of this name does not have."""
    from crfqn.estimators.named_penalties import named_penalty

    known = (*named_penalty(penalty).strengths, "l2")
    return {name: value for name, value in settings.items() if name not in STRENGTHS or name in known}
