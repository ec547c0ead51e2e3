"""A recipe to begin with: every key of a kind of structure, with its default, choices and meaning, as commented TOML.

It is made of the schema, so that it says what `parse_recipe` takes.
"""

import json
from dataclasses import MISSING, Field
from typing import Any

from crfqn.errors import InputError
from crfqn.recipes.keys import keys_in
from crfqn.recipes.schema import FEATURES_OF, SECTIONS, keys_of

CHAIN, TEXT = "windows", "text"  # the features of files of one's own that a skeleton shows
EXAMPLES: dict[str, dict[str, Any]] = {  # keys that are set, and not commented out
    "data": {"train": "train.txt", "test": "test.txt"},
    "objective": {"l1": "auto"},
    "windows": {"columns": "word", "templates": "word[-1] word[0] word[1] word[-1]|word[0]"},
}
STRUCTURED_LOSSES = ("logistic", "hinge")  # of chains and taxonomies


def skeleton(structure: str = "chain") -> str:
    """Return the text of a recipe for a kind of structure.

    Raises
    ------
    InputError
        There is no such kind.
    """
    lines = ['name = "mine"', 'title = "A model of my own"', ""]
    examples = EXAMPLES | {
        "features": {"kind": _kind(structure)} | EXAMPLES.get(_kind(structure), {}),
        "structure": {"kind": structure},
    }
    for section, rules in _rules(structure).items():
        lines.append(f"[{section}]")
        for rule in rules:
            lines += key_lines(rule, structure, examples.get(section, {}))
        lines.append("")
    return "\n".join(lines)


def keys(structure: str = "chain") -> dict[str, dict[str, Any]]:
    """Return the keys of the sections with default (None: there is none), choices and meaning; raises as `skeleton`."""
    return {
        section: {
            rule.name: {
                "default": None if rule.default is MISSING else rule.default,
                "choices": list(_choices(rule, structure)),
                "says": rule.metadata["says"],
            }
            for rule in rules
        }
        for section, rules in _rules(structure).items()
    }


def _kind(structure: str) -> str:
    """Return the features that a skeleton shows; InputError where there is no such structure."""
    if structure not in FEATURES_OF:
        raise InputError(f"structure: expected one of {', '.join(FEATURES_OF)}, got {structure!r}")
    return CHAIN if structure == "chain" else TEXT


def _rules(structure: str) -> dict[str, list[Field[Any]]]:
    """Return the keys of each section that go with a structure."""
    allowed = keys_of(structure, _kind(structure))
    return {
        section: [rule for name, rule in keys_in(cls).items() if name in allowed.get(section, (name,))]
        for section, cls in SECTIONS.items()
    }


def _choices(rule: Field[Any], structure: str) -> tuple[str, ...]:
    if rule.name == "loss" and structure in ("chain", "taxonomy"):
        return STRUCTURED_LOSSES
    return tuple(rule.metadata["choices"])


def key_lines(rule: Field[Any], structure: str, examples: dict[str, Any]) -> list[str]:
    """Return what a key means, and its line, commented out unless there is an example."""
    default = None if rule.default is MISSING else rule.default
    value = examples.get(rule.name, default)
    text = f"{rule.name} = {'...' if value is None else json.dumps(value)}"
    choices = _choices(rule, structure)
    listed = f": {' | '.join(choices)}" if choices else ""
    return [f"# {rule.metadata['says']}{listed}", text if rule.name in examples else f"# {text}"]
