"""The schema of recipes: sections, keys, and which go together."""

from crfqn.recipes.schema.recipe import Features, Recipe, parse_recipe

__all__ = ["Features", "Recipe", "parse_recipe"]
