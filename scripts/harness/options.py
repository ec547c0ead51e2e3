"""Options of the command lines, each with its sentence, for benchmarks and studies."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

SEVERAL = "May be given several times."
BY_DEFAULT_ALL = f"{SEVERAL[:-1]}; default: all."


def command(**settings: Any) -> typer.Typer:
    return typer.Typer(add_completion=False, pretty_exceptions_enable=False, **settings)


def some_of(names: Sequence[str], help: str = BY_DEFAULT_ALL) -> Any:
    """An option that takes some of the names, each by itself."""

    def known(name: str) -> str:
        if name not in names:
            raise typer.BadParameter(f"{name!r} is not one of {', '.join(map(repr, names))}.")
        return name

    return typer.Option(help=help, parser=known, metavar=f"[{'|'.join(names)}]")


def as_options(**given: Any) -> str:
    """Options as a command line has them: switches, lists, numbers; none for what is not given."""
    words = []
    for name, value in given.items():
        option = f" --{name.replace('_', '-')}"
        if isinstance(value, bool):
            words += [option] * value
        elif value is not None:
            values = value if isinstance(value, list | tuple) else [value]
            words += [f"{option} {each if isinstance(each, str) else format(each, 'g')}" for each in values]
    return "".join(words)


# Of studies.
Into = Annotated[Path, typer.Option(help="The folder to write into.")]
Quick = Annotated[bool, typer.Option("--quick", help="Small parts of the data or built-in data, short runs.")]

RunSeconds = Annotated[
    float | None, typer.Option(min=0.1, help="Of a single run; default: 300, with --quick 0.2.")
]


def run_seconds(chosen: float | None, is_quick: bool) -> float:
    """The limit of a single run of a study."""
    return chosen or (0.2 if is_quick else 300.0)


# Of benchmarks.
Output = Annotated[
    Path | None,
    typer.Option(help="A folder for JSON lines; what they have of this commit is not measured again."),
]
Full = Annotated[bool, typer.Option("--full", help="The long runs as well: hours.")]
Threads = Annotated[int, typer.Option(min=1, help="Threads of crfqn.")]
Penalties = Annotated[list[float] | None, typer.Option(help="Penalty; may be given several times.")]
Repeats = Annotated[int, typer.Option(min=1, help="Turns of crfqn and its peers; medians are reported.")]
Limit = Annotated[
    float, typer.Option(min=0, help="Seconds for a single fit of another library; 0: only crfqn runs.")
]
OwnLimit = Annotated[float, typer.Option(min=1, help="Seconds for a single fit of crfqn.")]
