"""`crfqn convert`: a model file in another format."""

from pathlib import Path
from typing import Any

from crfqn.cli.exits import say


def convert(
    source: Path,
    target: Path,
    source_format: str | None,
    target_format: str | None,
    options: dict[str, Any],
    *,
    is_quiet: bool,
) -> None:
    """Read a model file and write it in another format; options that are None are left to the format."""
    from crfqn import interchange

    given = {name: value for name, value in options.items() if value is not None}
    model = interchange.convert(source, target, source_format, target_format, **given)
    if not is_quiet:
        say(f"wrote {target}: {len(model.classes_)} labels, {model._weights().coords.size:,} weights")
