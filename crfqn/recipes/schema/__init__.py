"""What a recipe may say."""

from crfqn.recipes.schema.recipe import Features, Recipe, parse_recipe

__all__ = ["Features", "Recipe", "parse_recipe"]
