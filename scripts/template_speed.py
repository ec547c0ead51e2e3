"""Speed of templates on CoNLL-2000, in processor seconds of one thread: featurising, and tagging raw columns.

python scripts/template_speed.py            # with a model of some iterations: the strengths do not matter to the speed
"""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

from harness.measuring import processor_times, quietly

from crfqn import ChainCRF, Templates
from crfqn.datasets import dataset

TEMPLATE = Path(__file__).parents[1] / "models/conll2000/chunking.template"
ROUNDS = 5


def seconds(run: Callable[[], Any]) -> float:
    """Return the median of some runs, after one that is not counted."""
    return median(processor_times(run, ROUNDS))


def main() -> None:
    data: Any = dataset("conll2000").load()
    train, test = data.inputs[: data.n_train], data.inputs[data.n_train :]
    templates = Templates(TEMPLATE, columns=["w", "pos"])
    print(f"featurise {train.n_positions:,} tokens: {seconds(lambda: templates.fit_transform(train)):.2f} s")
    model = ChainCRF(
        l1=0.25, l2=0.25, all_possible_states=False, all_possible_transitions=False, max_iter=10, n_threads=1
    )
    with quietly():
        model.fit(templates.transform(train), data.labels[: data.n_train])
    spent = seconds(lambda: model.predict(test))
    print(
        f"tag {test.n_positions:,} tokens from columns: {spent:.3f} s, {test.n_positions / spent:,.0f} tokens/s"
    )


if __name__ == "__main__":
    ArgumentParser(description=__doc__).parse_args()
    main()
