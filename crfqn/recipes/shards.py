"""Training data of a recipe as shards that the workers of a Dask cluster read."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from crfqn.choices import AUTO_TOKENIZER
from crfqn.data.files import is_stream
from crfqn.data_options import OF_TEMPLATES
from crfqn.errors import DataError, EmptyDataError, InputError
from crfqn.recipes import sources
from crfqn.recipes.prepared import Prepared
from crfqn.recipes.preparing import observe
from crfqn.recipes.schema import Recipe
from crfqn.recipes.sequences import templates_of

SHARDS_OF_FILE = 4  # fixed, so that the number of workers does not change the result


@dataclass(frozen=True)
class RecipeShard:
    """The run `number` of `of` runs of the items of a file; calling it reads the file and returns these items.

    The items have the features of the recipe, or columns if the features are templates.
    """

    recipe: Recipe
    path: str
    number: int
    of: int

    def __call__(self) -> Any:
        try:
            observed = observe(self.recipe, self.path, columns=self.recipe.features.column_names or None)
        except EmptyDataError:
            return [], []
        if observed.y is None:
            raise DataError(f"{self.path}: expected labels, got none")
        n_items = len(observed.y)
        run = slice(self.number * n_items // self.of, (self.number + 1) * n_items // self.of)
        weights = observed.data.weights
        return observed.X[run], observed.y[run], weights and weights[run]


def prepare_shards(recipe: Recipe) -> Prepared:
    """Return the training data as shards, which the workers of a Dask cluster read, and the test part, read here.

    There is one shard per training file, or `SHARDS_OF_FILE` for a single file. InputError for datasets and standard
    input, which workers cannot read, and for other structures than chains.
    """
    from crfqn.distributed.sources import Shards

    paths = sources.files_named(recipe.data.names("train"), recipe.source.parent)
    if recipe.structure.kind != "chain":
        raise InputError(f"on a cluster expected sequences, got a recipe of {recipe.structure.kind} labels")
    if recipe.data.dataset or any(map(is_stream, paths)):
        raise InputError("on a cluster expected files that the workers can read (--data FILE)")
    taken = sources.options_taken(recipe, sources.format_of(recipe, *paths[:1]))
    if "reads_spans" in taken and recipe.data.tokenizer == AUTO_TOKENIZER:
        raise InputError("on a cluster texts with spans need one tokenizer for all files (--tokenizer NAME)")
    n_parts = SHARDS_OF_FILE if len(paths) == 1 else 1
    reads = [
        RecipeShard(recipe, str(Path(path).resolve()), number, n_parts)
        for path in paths
        for number in range(n_parts)
    ]
    templates = templates_of(recipe) if recipe.features.kind in OF_TEMPLATES else None
    X_test, y_test = [], []
    if names := recipe.data.names("test"):
        test = observe(recipe, sources.files_named(names, recipe.source.parent))
        X_test, y_test = test.X, test.y or []
    return Prepared(Shards(reads, templates=templates), [], X_test, y_test, None, "", is_sharded=True)
