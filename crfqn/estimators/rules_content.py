"""Rules on neighbouring labels in model files: what is forbidden, arrays that files without rules do not have."""

from __future__ import annotations

import numpy as np

from crfqn.data.model_file import ModelFile, narrowed
from crfqn.estimators.content import FROM, TO, Content
from crfqn.structures.transition_rules import TransitionRules

PAIRS, START, END = "forbidden", "forbidden_start", "forbidden_end"


def add_rules(content: Content, rules: TransitionRules | None) -> None:
    """Add forbidden transitions, as pairs of states, and states that may not begin or end an item."""
    if rules is None:
        return
    first, second = np.nonzero(~rules.transitions)
    content.arrays[f"{PAIRS}_{FROM}"], content.arrays[f"{PAIRS}_{TO}"] = narrowed(first), narrowed(second)
    content.arrays[START] = narrowed(np.flatnonzero(~rules.start))
    content.arrays[END] = narrowed(np.flatnonzero(~rules.end))


def read_rules(file: ModelFile, n_states: int) -> TransitionRules | None:
    """Return the rules that `add_rules` stored, None where there are none; ModelFileError for states that are not."""
    if START not in file.arrays:
        return None
    rules = TransitionRules.everything(n_states)
    first = file.integers(f"{PAIRS}_{FROM}", (None,), n_states)
    rules.transitions[first, file.integers(f"{PAIRS}_{TO}", first.shape, n_states)] = False
    rules.start[file.integers(START, (None,), n_states)] = False
    rules.end[file.integers(END, (None,), n_states)] = False
    return rules
