"""`crfqn convert`: a model file in another format."""

import warnings
from pathlib import Path
from typing import Any

from crfqn.cli.exits import say
from crfqn.cli.terminal import to_json


def convert(
    source: Path,
    target: Path,
    source_format: str | None,
    target_format: str | None,
    options: dict[str, Any],
    *,
    as_json: bool,
    is_quiet: bool,
) -> None:
    """Read a model file and write it in another format; options that are None are left to the format."""
    from crfqn import interchange

    given = {name: value for name, value in options.items() if value is not None}
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always", UserWarning)  # of what is lost, of templates that cannot be used
        model = interchange.convert(source, target, source_format, target_format, **given)
    for warning in told:
        say(str(warning.message))
    n_weights = int(model._weights().coords.size)
    if as_json:
        facts = {"path": str(target), "bytes": target.stat().st_size, "kind": model.KIND}
        print(to_json(facts | {"n_labels": len(model.classes_), "n_weights": n_weights}))
    elif not is_quiet:
        say(f"wrote {target}: {len(model.classes_)} labels, {n_weights:,} weights")
