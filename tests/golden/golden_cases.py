"""What stored models predict, what is public, and what commands say: how it is looked at and compared.

`make.py` writes what is found into files beside it, the tests find it again. Predictions are of stored model files, so
that a change of training, or of a library that it uses, changes none of them.
"""

from __future__ import annotations

import inspect
import json
import re
from contextlib import suppress
from importlib import import_module
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse

from crfqn import Features, Tagger, interchange
from crfqn.compat import CRF
from crfqn.model.answers import gives_probabilities

FOLDER = Path(__file__).resolve().parent
MODELS, EXPECTED, FILES = FOLDER / "models", FOLDER / "expected", FOLDER / "files"
API = FOLDER.parents[1] / "docs" / "api.md"
N_BEST = 3
THRESHOLD = 0.6
# What an estimator is asked, where it has the method: a name of the answer, the method, and arguments beside the items.
QUESTIONS: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("predict", "predict", {}),
    ("decode", "decode", {}),
    ("predict_proba", "predict_proba", {}),
    ("predict_log_proba", "predict_log_proba", {}),
    ("predict_marginals", "predict_marginals", {}),
    ("pairs", "predict_marginals", {"pairs": True}),
    ("predict_nbest", "predict_nbest", {"n": N_BEST}),
    ("predict_spans", "predict_spans", {}),
    ("predict_nodes", "predict_nodes", {}),
    ("threshold", "predict", {"threshold": THRESHOLD}),
    ("predict_sets", "predict_sets", {}),
    ("rank", "rank", {}),
    ("decision_function", "decision_function", {}),
)
# What taggers are asked of models of the command line: texts, which they cut, cells of tables, and lists of these.
SENTENCES = ["Ann Lee sees New York, and a dog.", "The é\u0301tude runs 3.14; हिन्दी!", ["Ann", "3.14"]]
DOCUMENTS = ["a dog and a tree", "unheard of", "The cat; the हिन्दी cat"]
TAGGED: dict[str, list[Any]] = {
    "cli-words": SENTENCES,
    "cli-texts": DOCUMENTS,
    "cli-texts-tree": DOCUMENTS,
    "cli-table": [{"n": 0.5, "colour": "red", "size": 1.5}, {"n": -1.25, "colour": "unknown", "size": 0}],
}
OF_CHAINS = ("pairs",)


# ---- items and answers as JSON


def as_items(form: str, stored: Any) -> Any:
    """Return items in the form that a model takes: "json" (dicts, strings, texts), "sequences" of arrays, "rows" of
    numbers, "csr", or "dense" blocks beside sparse ones, of sequences or rows."""
    if form == "sequences":
        return [np.array(item, float) for item in stored]
    if form == "rows":
        return np.array(stored, float)
    if form == "csr":
        return scipy.sparse.csr_array(np.array(stored, float))
    if form == "dense rows":
        return Features(np.array(stored["dense"]), scipy.sparse.csr_array(np.array(stored["sparse"])))
    if form == "dense sequences":
        return Features([np.array(item, float) for item in stored["dense"]], stored["sparse"])
    return stored


def as_json(answer: Any) -> Any:
    """Return an answer as JSON has it, infinite numbers as texts."""
    if isinstance(answer, np.ndarray):
        return as_json(answer.tolist())
    if hasattr(answer, "_asdict"):
        return {name: as_json(value) for name, value in answer._asdict().items()}
    if hasattr(answer, "__dataclass_fields__"):
        return {name: as_json(getattr(answer, name)) for name in answer.__dataclass_fields__}
    if isinstance(answer, (set, frozenset)):
        return sorted(map(as_json, answer), key=str)
    if isinstance(answer, (list, tuple)):
        return [as_json(value) for value in answer]
    if isinstance(answer, float) and not np.isfinite(answer):
        return str(answer)
    return as_json(answer.item()) if isinstance(answer, np.generic) else answer


def answers_of(model: Any, X: Any) -> dict[str, Any]:
    """Return all that an estimator says of items, by question."""
    found = {"classes": as_json(model.classes_)}
    for name, method, more in QUESTIONS:
        if not hasattr(model, method) or (name in OF_CHAINS and not model.ANSWERS.has_positions):
            continue
        if name == "threshold" and not gives_probabilities(model):
            continue
        if not {*more} <= {*inspect.signature(getattr(model, method)).parameters}:
            continue
        if name == "predict_spans" and model.transitions.scheme is None:
            continue
        found[name] = as_json(getattr(model, method)(X, **more))
    return found


def tagger_answers(path: Path, items: list[Any]) -> dict[str, Any]:
    """Return what a `Tagger` says of items, texts and rows of tables among them, each by itself."""
    tagger = Tagger(path)
    found: dict[str, Any] = {"labels": as_json(tagger.labels())}
    found["tag"] = [as_json(tagger.tag(item)) for item in items]
    info = tagger.info()
    found["transitions"] = [[*pair, weight] for pair, weight in info.transitions.items()]
    found["state_features"] = [[*pair, weight] for pair, weight in info.state_features.items()]
    with suppress(AttributeError):  # of a loss without probabilities
        found["marginals"] = [as_json(tagger.marginals(item)) for item in items]
        found["nbest"] = [as_json(tagger.nbest(item, n=N_BEST)) for item in items]
    return found


def compat_answers(path: Path, items: list[Any]) -> dict[str, Any]:
    """Return what `crfqn.compat.CRF` says of a file in CRFsuite's format and of items."""
    crf = CRF(model_filename=str(path))
    pairs = {"state_features": crf.state_features_, "transition_features": crf.transition_features_}
    found = {
        name: [[*pair, weight] for pair, weight in (weights or {}).items()] for name, weights in pairs.items()
    }
    return found | {
        "classes": as_json(crf.classes_),
        "attributes": as_json(crf.attributes_),
        "predict": as_json(crf.predict(items)),
        "predict_single": as_json(crf.predict_single(items[0])),
        "marginals": [
            [dict(sorted(position.items())) for position in item] for item in crf.predict_marginals(items)
        ],
        "score": crf.score(items, [[crf.classes_[0]] * len(item) for item in items]),
    }


def opened(path: Path) -> Any:
    """Return the estimator of a model file in any format that is read."""
    return interchange.read(path)


def differences(found: Any, expected: Any, tolerance: float, where: str = "") -> list[str]:
    """Return where two JSON values differ, numbers by more than a tolerance, absolute and relative."""
    if isinstance(expected, dict) and isinstance(found, dict):
        missing = [f"{where}: {key!r} is missing" for key in expected if key not in found]
        new = [f"{where}: {key!r} is new" for key in found if key not in expected]
        both = [key for key in expected if key in found]
        nested = [differences(found[key], expected[key], tolerance, f"{where}/{key}") for key in both]
        return [*missing, *new, *chain.from_iterable(nested)]
    if isinstance(expected, list) and isinstance(found, list):
        if len(found) != len(expected):
            return [f"{where}: {len(found)} values for {len(expected)}"]
        pairs = enumerate(zip(found, expected, strict=True))
        return [*chain.from_iterable(differences(*pair, tolerance, f"{where}/{i}") for i, pair in pairs)]
    if isinstance(expected, float) and isinstance(found, (int, float)) and not isinstance(found, bool):
        is_same = abs(found - expected) <= tolerance * max(1.0, abs(expected)) or found == expected
        return [] if is_same else [f"{where}: {found!r} for {expected!r}"]
    is_same = type(found) is type(expected) and found == expected
    return [] if is_same else [f"{where}: {found!r} for {expected!r}"]


# ---- the command line


NUMBER = re.compile(r"(?<![\w.])[+-]?\d+\.\d+(?:e[+-]?\d+)?(?![\w.])")


def said(text: str) -> Any:
    """Return what a command has written: JSON, JSON lines, or lines with their decimal numbers apart."""
    try:
        return json.loads(text)
    except ValueError:
        pass
    lines = text.splitlines()
    if lines and all(line.startswith("{") for line in lines):
        return [json.loads(line) for line in lines]
    return [[NUMBER.sub("#", line), [*map(float, NUMBER.findall(line))]] for line in lines]


# ---- public names and commands


def public_names() -> dict[str, Any]:
    """Return all names of the reference in the manual: of functions the parameters, of classes members and theirs."""
    module, found = "", {}
    for line in API.read_text(encoding="utf-8").splitlines():
        if line.startswith(".. currentmodule::"):
            module = line.split()[-1]
        elif module and re.fullmatch(r"   [A-Za-z][\w.]*", line):
            found[f"{module}.{line.strip()}"] = _described(_found(module, line.strip()))
    return found


def _found(module: str, name: str) -> Any:
    *folders, last = name.split(".")
    return getattr(import_module(".".join([module, *folders])), last)


def _described(value: Any) -> Any:
    if not inspect.isclass(value):
        return _parameters(value) if callable(value) else type(value).__name__
    members: dict[str, Any] = {}
    for kind in reversed(value.__mro__):
        if not kind.__module__.startswith("crfqn"):
            continue
        for name, member in vars(kind).items():
            if not name.startswith("_"):
                member = getattr(member, "fn", getattr(member, "__func__", member))
                members[name] = _parameters(member) if inspect.isroutine(member) else "attribute"
    return {"parameters": _parameters(value), "members": dict(sorted(members.items()))}


def _parameters(value: Any) -> list[str] | None:
    """Return name, kind and default of each parameter, None where they are not known."""
    try:
        signature = inspect.signature(value)
    except (TypeError, ValueError):
        return None
    return [_parameter(parameter) for parameter in signature.parameters.values()]


def _parameter(parameter: inspect.Parameter) -> str:
    stars = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}.get(
        parameter.kind, ""
    )
    shown = f"{stars}{parameter.name}"
    if parameter.default is not inspect.Parameter.empty:
        text = repr(parameter.default)
        shown += f"={type(parameter.default).__name__ if ' at 0x' in text or '<' in text else text}"
    return f"{shown} ({parameter.kind.name.lower().replace('_', ' ')})"


def commands() -> dict[str, Any]:
    """Return what `--help` of every command is made of."""
    import typer

    from crfqn.cli.app import app

    found: dict[str, Any] = {}

    def visit(name: str, command: Any) -> None:
        found[name] = {"help": command.help, "parameters": [_option(one) for one in command.params]}
        for sub, other in getattr(command, "commands", {}).items():
            visit(f"{name} {sub}", other)

    visit("crfqn", typer.main.get_command(app))
    return found


FRAME = re.compile(r"[\u2500-\u257f]+|\x1b\[[\d;]*m")  # lines of boxes, and colours


def rendered(text: str) -> str:
    """Return the words of a help page, whatever its frames and the width of its columns."""
    return " ".join(FRAME.sub(" ", text).split())


def _option(parameter: Any) -> dict[str, Any]:
    """Return what typer's versions agree on."""
    default = parameter.default
    return {
        "names": [*parameter.opts, *parameter.secondary_opts],
        "help": getattr(parameter, "help", None),
        "is_required": bool(parameter.required),
        "default": default if isinstance(default, (str, int, float)) else None,
    }


def recipe_keys() -> dict[str, Any]:
    """Return all keys of recipes of each structure, with their defaults and what they mean."""
    from crfqn.recipes.finding import describe_keys

    return {structure: describe_keys(structure) for structure in ("chain", "flat", "taxonomy", "ranking")}
