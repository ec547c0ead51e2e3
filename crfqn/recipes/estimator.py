"""The estimator that a recipe trains."""

from typing import TYPE_CHECKING, Any

from crfqn.errors import RecipeError
from crfqn.recipes.schema import Recipe

if TYPE_CHECKING:
    from crfqn.estimators.base import SparseCRF

# Parameters that other sections set, or the data.
ELSEWHERE = {"l1", "l2", "solver", "callback", "fit_intercept", "penalize_intercept", "class_weight"} | {
    "group_l1",
    "group_norm",
    "all_possible_states",
    "all_possible_transitions",
    "taxonomy",
    "labels",
    "separator",
}


def build_estimator(recipe: Recipe, **overrides: Any) -> "SparseCRF":
    """The untrained estimator of a recipe.

    Parameters
    ----------
    recipe : Recipe
    **overrides
        Parameters of the estimator that replace the recipe's; None keeps what the recipe says. A recipe over a
        taxonomy needs that of its data, unless it is inferred: `taxonomy=prepared.given_taxonomy`.

    Raises
    ------
    RecipeError
        The solver section has a setting that the estimator does not know.
    """
    kind, settings = _kind(recipe), _settings(recipe)
    allowed = sorted(kind().get_params().keys() - ELSEWHERE)
    for name in recipe.solver.settings:
        if name not in allowed:
            raise RecipeError(
                f"{recipe.source}: [solver] has an unknown key: {name}; allowed: name, {', '.join(allowed)}"
            )
    given = {name: value for name, value in overrides.items() if value is not None}
    return kind(**{**settings, **recipe.solver.settings, **given})


def _kind(recipe: Recipe) -> "type[SparseCRF]":
    if recipe.structure.kind == "taxonomy":
        from crfqn.estimators.classification.taxonomy import TaxonomyCRF

        return TaxonomyCRF
    if recipe.structure.kind == "flat":
        from crfqn.estimators.classification.multiclass_crf import MulticlassCRF

        return MulticlassCRF
    from crfqn.estimators.sequence.chain import ChainCRF

    return ChainCRF


def _settings(recipe: Recipe) -> dict[str, Any]:
    objective = recipe.objective
    settings: dict[str, Any] = {
        "l1": objective.l1,
        "l2": objective.l2,
        "group_l1": objective.group_l1,
        "group_norm": objective.group_norm,
        "solver": recipe.solver.name,
        "tol": recipe.solver.tol,
        "max_iter": recipe.solver.max_iter,
    }
    if recipe.structure.kind == "chain":
        return settings | {
            "all_possible_states": objective.all_possible_states,
            "all_possible_transitions": objective.all_possible_transitions,
        }
    if recipe.structure.kind == "taxonomy":
        settings["labels"] = recipe.structure.labels
        settings["separator"] = recipe.structure.separator or "/"
    return settings | {
        "fit_intercept": objective.fit_intercept,
        "penalize_intercept": objective.penalize_intercept,
        "class_weight": None if objective.class_weight == "none" else objective.class_weight,
    }
