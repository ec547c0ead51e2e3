"""A model file as the commands use it: the estimator, the recipe behind it, and features of new files."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from crfqn.errors import InputError, ModelFileError
from crfqn.readers.crfsuite_text import read_crfsuite_text
from crfqn.readers.lines import STANDARD_INPUT
from crfqn.recipe_schema import Recipe, parse_recipe
from crfqn.recipes import Observed, observe

if TYPE_CHECKING:
    from crfqn.estimators.chain import ChainCRF


def load_model(path: Path) -> "ChainCRF":
    """Load a model file (ModelFileError for anything else); its `extra_` is a dict."""
    from crfqn.estimators.persistence import load

    return load(path)


def recipe_of(model: "ChainCRF", path: Path) -> Recipe | None:
    """The recipe that a model was trained by; None if it was trained otherwise."""
    table = model.extra_.get("recipe")
    if table is None:
        return None
    if not isinstance(table, dict):
        raise ModelFileError(f"{path}: its recipe is not a table")
    return parse_recipe(table, model.extra_.get("recipe_source", path))


def read_input(model: "ChainCRF", path: Path, source: str | None) -> Observed:
    """Features (and labels) of a file or standard input (-), or of the test part of the model's own data.

    Raises
    ------
    InputError
        There is no such file, or no way to know the features of this model.
    """
    recipe = recipe_of(model, path)
    if source is not None and source != STANDARD_INPUT:
        if not Path(source).exists():
            raise InputError(f"{source}: there is no such file")
        if Path(source).is_dir():
            raise InputError(f"{source}: a folder; expected a file")
    if recipe is not None:
        return observe(recipe, source)
    if source is None:
        raise InputError(f"{path}: not trained from a recipe, so it has no test data; name a labelled file")
    if model.vocabulary_ is None:
        raise InputError(
            f"{path}: trained on matrices without feature names and without a recipe; use it from Python "
            "(crfqn.load)"
        )
    labeled = read_crfsuite_text(source)
    is_labeled = all(label for item in labeled.labels for label in item)
    return Observed(labeled.inputs, labeled.labels if is_labeled else None)


def feature_name(model: "ChainCRF", recipe: Recipe | None, column: int) -> str:
    """The name of a feature: the model's, else the recipe's, else its number."""
    if model.vocabulary_ is not None:
        return str(model.vocabulary_.names[column])
    if recipe is not None and recipe.features.kind == "pixel-pairs":
        return str(_pixel_names(recipe)[column])
    return f"feature {column}"


def _pixel_names(recipe: Recipe) -> Any:
    from crfqn.datasets import dataset
    from crfqn.pixels import PixelPairs

    shape = dataset(recipe.data.dataset).shape
    return PixelPairs(shape, recipe.features.threshold, recipe.features.bias).names
