"""Recipes by name or path: listing, finding and loading them."""

import tomllib
from pathlib import Path

from crfqn.datasets.registry import bundled
from crfqn.errors import RecipeError
from crfqn.recipes.schema import Recipe, parse_recipe

FILE_NAME = "recipe.toml"


def list_recipes() -> list[str]:
    """Return the names of the ready-made recipes, sorted."""
    return sorted(path.parent.name for path in bundled("models").glob(f"*/{FILE_NAME}"))


def find_recipe(name_or_path: str | Path) -> Path:
    """Return the file of a recipe, given by its path, its folder's path or the name of a ready-made recipe.

    `models/ocr` is taken as a path if it is one here, else as the ready-made recipe `ocr`.

    Raises
    ------
    RecipeError
        There is no such recipe; the text lists the ready-made ones.
    """
    path = Path(name_or_path)
    if path.is_file():
        return path
    if (path / FILE_NAME).is_file():
        return path / FILE_NAME
    names = list_recipes()
    if path.name in names and path.parts in ((path.name,), ("models", path.name)):
        return bundled("models") / path.name / FILE_NAME
    here = f"the folder {path} has no {FILE_NAME}" if path.is_dir() else f"no recipe {str(name_or_path)!r}"
    raise RecipeError(f"{here}; give a path to a recipe, or one of the ready-made models: {', '.join(names)}")


def load_recipe(name_or_path: str | Path) -> Recipe:
    """Find, read and check a recipe.

    Raises
    ------
    RecipeError
        Not found, not TOML, or a key or value that is not allowed.
    """
    path = find_recipe(name_or_path)
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:  # bad TOML and bad UTF-8 are ValueErrors
        raise RecipeError(f"{path}: cannot be read as TOML: {error}") from error
    return parse_recipe(table, path)
