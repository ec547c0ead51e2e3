"""`crfqn report`: a page about a model as one HTML file."""

from pathlib import Path
from typing import Any

from crfqn.atomic_write import check_writable
from crfqn.cli.exits import say
from crfqn.cli.loading import FeatureNames, load_model, read_input, recipe_of
from crfqn.cli.terminal import printable, to_json
from crfqn.data.files.lines import shown_name
from crfqn.errors import CrfqnError, InputError
from crfqn.recipes import Observed


def report(
    path: Path, source: str | None, output: Path, contents: dict[str, Any], *, as_json: bool, is_quiet: bool
) -> None:
    """Write the page to `output`, and print where it is. `contents` are fields of `crfqn.report.page.Contents`."""
    from crfqn.report import write_report

    model = load_model(path)
    check_writable(output)
    observed, name = _labelled(model, path, source, is_quiet)
    data = None if observed is None else (observed.X, observed.y)
    write_report(
        path,
        output,
        data,
        texts=None if observed is None else observed.texts,
        feature_names=FeatureNames(model, path),
        image_shape=_image_shape(model, path),
        source=name,
        **contents,
    )
    n_items = None if observed is None else len(observed.y or ())
    if as_json:
        print(to_json({"path": str(output), "bytes": output.stat().st_size, "n_items": n_items}))
    else:
        about = "" if n_items is None else f", with scores of {n_items:,} items"
        print(printable(f"{output} ({output.stat().st_size:,} bytes{about})"))


def _labelled(model: Any, path: Path, source: str | None, is_quiet: bool) -> tuple[Observed | None, str]:
    """Return labelled items and their name; None where the user named none and none are at hand."""
    try:
        observed = read_input(model, path, source)
    except (CrfqnError, OSError) as error:
        if source is not None:
            raise
        if not is_quiet:
            say(f"Without scores and errors, as there is no data to evaluate on: {error}")
        return None, ""
    name = shown_name(source) if source is not None else "the test part of the data"
    if observed.y is None or not all(map(bool, observed.y)):
        raise InputError(f"{name}: expected a label for every item, to compare with")
    return observed, name


def _image_shape(model: Any, path: Path) -> tuple[int, int] | None:
    """Return rows and columns of the images that a model was trained on; None for others."""
    recipe = recipe_of(model, path)
    if recipe is None or recipe.features.kind != "pixel-pairs":
        return None
    from crfqn.datasets import dataset

    return dataset(recipe.data.dataset).shape
