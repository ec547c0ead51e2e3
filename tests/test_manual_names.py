"""Every name that the manual mentions in code style exists: methods and attributes, parameters, functions, options."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
from collections.abc import Container
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import typer

import crfqn
from crfqn.cli.app import app

ROOT = Path(__file__).resolve().parents[1]
PAGES = sorted([*(ROOT / "docs").glob("*.md"), ROOT / "README.md"])
PUBLIC = "compat datasets interchange metrics penalties plot readers regularization_path result errors"
OTHERS = (  # pages' own
    "objectives.objective objectives.point solvers.minimize solvers.stopping solvers.protocols solvers.prox_qn "
    "model.tagger readers.format"
)
MODULES = [crfqn, *(importlib.import_module(f"crfqn.{name}") for name in f"{PUBLIC} {OTHERS}".split())]
COMMAND_LINE = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "crfqn").rglob("*.py"))
FENCE = re.compile(r"^ *```.*?^ *```", re.MULTILINE | re.DOTALL)
SPAN = re.compile(r"(?<!`)`([^`]+)`(?!`)")
# By page, options and functions of other tools that it speaks of.
SET_ELSEWHERE = {
    "coming-over": {
        *["--rho1", "--rho2", "--maxiter", "--nthread", "--stopeps", "--stopwin", "--model", "--compact"]
    },
    "estimators": {"cross_val_score"},
    "production": {"--add-data"},
    "questions": {"make_pipeline"},
}


def spans(page: Path) -> list[str]:
    """The pieces of text in code style; those of blocks, which are run as tests, are left out."""
    return [
        " ".join(found.split()) for found in SPAN.findall(FENCE.sub("", page.read_text(encoding="utf-8")))
    ]


@cache
def objects() -> list[tuple[str, Any]]:
    """The public objects of all modules, with their names; some names are those of several."""
    names = [(module, getattr(module, "__all__", None) or vars(module)) for module in MODULES]
    return [(name, getattr(module, name)) for module, listed in names for name in listed if name[0] != "_"]


@cache
def classes() -> dict[str, type]:
    return {name: found for name, found in objects() if inspect.isclass(found)}


@cache
def attributes(kind: type) -> frozenset[str]:
    """What an object of a class has: methods, fields, and what its docstring lists as attributes."""
    found = {*dir(kind), *(name for base in kind.__mro__ for name in getattr(base, "__annotations__", {}))}
    for base in kind.__mro__:
        _, _, listed = (base.__doc__ or "").partition("Attributes\n")
        for line in listed.splitlines():
            found |= set(re.findall(r"\w+", line.partition(" : ")[0]))
    return frozenset(found)


@cache
def methods(name: str) -> tuple[Any, ...]:
    """All public functions and methods of a name, and the classes of this name."""
    found = [found for other, found in objects() if other == name and callable(found)]
    kinds = {kind for _, kind in objects() if inspect.isclass(kind)}  # several may have one name
    return (*found, *(m for kind in kinds if callable(m := getattr(kind, name, None))))


def takes(function: Any, keyword: str | None) -> bool:
    """Whether a function has a parameter of this name, or takes any."""
    parameters = inspect.signature(function).parameters
    return keyword in parameters or any(p.kind is p.VAR_KEYWORD for p in parameters.values())


@cache
def options() -> set[str]:
    """The options of all commands."""

    def of(command: Any) -> set[str]:
        found = {name for option in command.params for name in (*option.opts, *option.secondary_opts)}
        return found.union(*(of(each) for each in getattr(command, "commands", {}).values()))

    return of(typer.main.get_command(app)) | {"--help", "--version"}


@cache
def options_of_scripts() -> set[str]:
    """The options of the scripts, which are made of the parameters of their functions."""
    scripts = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "scripts").rglob("*.py"))
    return {f"--{name.replace('_', '-')}" for name in re.findall(r"\b([a-z][a-z_]*): ", scripts)} | {
        *re.findall(r'"(--[a-z][\w-]*)"', scripts)
    }


def is_there(dotted: str) -> bool:
    """Whether a name that begins with the package's is one of it: a module, an object, an attribute, a logger."""
    found: Any = crfqn
    for part in dotted.split(".")[1:]:
        if inspect.isclass(found) and part in attributes(found):
            return True
        if not hasattr(found, part):
            try:
                importlib.import_module(f"{getattr(found, '__name__', '')}.{part}")
            except ImportError:
                return f'getLogger("{dotted}")' in COMMAND_LINE
        found = getattr(found, part)
    return True


def wrong_names(span: str, others: Container[str] = ()) -> list[str]:
    """What a piece of code says of ours that is not there; `others` are options and functions of other tools."""
    dotted = re.findall(r"(?<![\w./-])crfqn(?:\.[A-Za-z_]\w*)+(?![\w/-])", span)
    wrong = [name for name in dotted if not is_there(name)]
    for kind, name in re.findall(r"(?<![\w.])([A-Z]\w+)(?:\([^()]*\))?\.([a-z_]\w*)", span):
        if kind in classes() and name not in attributes(classes()[kind]):
            wrong.append(f"{kind}.{name}")
    try:
        calls = [node for node in ast.walk(ast.parse(span)) if isinstance(node, ast.Call)]
    except SyntaxError:
        calls = []
    for call in calls:
        name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
        functions = methods(name)
        is_known = [any(takes(each, keyword.arg) for each in functions) for keyword in call.keywords]
        if functions and not all(is_known):
            wrong.append(f"{name}: {[keyword.arg for keyword in call.keywords]}")
    is_attribute = re.fullmatch(r"[a-z][a-z_0-9]*_", span) is not None
    if is_attribute and not any(span in attributes(kind) for kind in classes().values()):
        wrong.append(span)
    name = span.partition("(")[0]
    if re.fullmatch(r"[a-z_]\w*\(.*\)", span) and not methods(name) and name not in others:
        wrong.append(span)
    if re.match(r"--[a-z]|crfqn [a-z]", span):
        named = re.findall(r"(?<![\w-])--[a-z][\w-]*", span)
        wrong += [option for option in named if option not in options() and option not in others]
    return wrong


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_names_exist(page):
    is_measured = page.stem == "benchmarks" or page.stem.startswith("study-")
    others = SET_ELSEWHERE.get(page.stem, set()) | (options_of_scripts() if is_measured else set())
    assert [(span, wrong) for span in spans(page) if (wrong := wrong_names(span, others))] == []


@pytest.mark.parametrize(
    "span",
    [
        "Tagger.weakest_features",
        "ChainCRF(l1=0.1).nbest",
        "ChainCRF(c1=0.1)",
        "fit(begin=model)",
        "model.fit(X, y, begin=model)",
        "crfqn.interchange.wrote",
        "crfqn.no_such_module",
        "coeff_",
        "predict_marginal(X)",
        "--l3",
        "crfqn train --l3 5",
    ],
)
def test_what_does_not_exist_is_told(span):
    assert wrong_names(span)


@pytest.mark.parametrize(
    "span",
    [
        "Tagger.strongest_features",
        "ChainCRF(l1=0.1).fit(X, y, start=m)",
        "coef_",
        "crfqn train --l1 5",
        "crfqn.metrics.scorer_names",
    ],
)
def test_what_exists_is_not(span):
    assert wrong_names(span) == []
