"""Recipes: a ready-made model is a folder with `recipe.toml` (data, features, structure, objective, solver).

The functions make the data and the estimator of a recipe, and read new files into the same features, for the command
line and for Python.
"""

from crfqn.model.featurizers import Featurizer
from crfqn.recipes.building import build_estimator, by_feature_in_columns
from crfqn.recipes.finding import find_recipe, list_recipes, load_recipe
from crfqn.recipes.prepared import Observed, Prepared
from crfqn.recipes.preparing import observe, prepare_data
from crfqn.recipes.sources import EMBEDDED

__all__ = [
    "EMBEDDED",
    "Featurizer",
    "Observed",
    "Prepared",
    "build_estimator",
    "by_feature_in_columns",
    "find_recipe",
    "list_recipes",
    "load_recipe",
    "observe",
    "prepare_data",
]
