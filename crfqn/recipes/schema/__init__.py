"""Schema of recipes: sections, their keys, and which of them go together."""

from crfqn.recipes.schema.recipe import Features, Recipe, parse_recipe

__all__ = ["Features", "Recipe", "parse_recipe"]
