"""What a recipe may say."""

from crfqn.recipe_schema.recipe import Features, Recipe, parse_recipe

__all__ = ["Features", "Recipe", "parse_recipe"]
