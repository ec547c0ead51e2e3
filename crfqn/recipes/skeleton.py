"""A recipe to begin with: every key of a kind of structure, with its default, choices and meaning, as commented TOML.

It is made of the schema, so that it says what `parse_recipe` takes.
"""

import json
from dataclasses import MISSING, Field, fields
from typing import Any

from crfqn.errors import InputError
from crfqn.recipes.schema.recipe import (
    FEATURES_OF,
    SECTIONS,
    Data,
    Features,
    Objective,
    Output,
    Solver,
    Structure,
    keys_of,
)

CLASSES = {
    "data": Data,
    "features": Features,
    "structure": Structure,
    "objective": Objective,
    "solver": Solver,
    "output": Output,
}
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
    if structure not in FEATURES_OF:
        raise InputError(f"structure: expected one of {', '.join(FEATURES_OF)}, got {structure!r}")
    kind = CHAIN if structure == "chain" else TEXT
    lines = ['name = "mine"', 'title = "A model of my own"', ""]
    allowed = keys_of(structure, kind)
    examples = EXAMPLES | {
        "features": {"kind": kind} | EXAMPLES.get(kind, {}),
        "structure": {"kind": structure},
    }
    for section in SECTIONS:
        rules = [rule for rule in fields(CLASSES[section]) if "kind" in rule.metadata]
        known = [rule for rule in rules if rule.name in allowed.get(section, (rule.name,))]
        lines.append(f"[{section}]")
        for rule in known:
            lines += key_lines(rule, structure, examples.get(section, {}))
        lines.append("")
    return "\n".join(lines)


def key_lines(rule: Field[Any], structure: str, examples: dict[str, Any]) -> list[str]:
    """Return what a key means, and its line, commented out unless there is an example."""
    default = None if rule.default is MISSING else rule.default
    value = examples.get(rule.name, default)
    text = f"{rule.name} = {'...' if value is None else json.dumps(value)}"
    choices = rule.metadata["choices"]
    if rule.name == "loss" and structure in ("chain", "taxonomy"):
        choices = STRUCTURED_LOSSES
    listed = f": {' | '.join(choices)}" if choices else ""
    return [f"# {rule.metadata['says']}{listed}", text if rule.name in examples else f"# {text}"]
