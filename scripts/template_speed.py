"""Speed of templates on CoNLL-2000, in processor seconds of one thread: featurising, and tagging raw columns.

python scripts/template_speed.py            # with a model of some iterations: the strengths do not matter to the speed
"""

from __future__ import annotations

import statistics
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sklearn.exceptions import ConvergenceWarning

from crfqn import ChainCRF, Templates
from crfqn.datasets import dataset

TEMPLATE = Path(__file__).parents[1] / "models/conll2000/chunking.template"
ROUNDS = 5


def seconds(run: Callable[[], Any]) -> float:
    """Return the median of some runs, after one that is not counted."""
    run()
    times = []
    for _ in range(ROUNDS):
        start = time.process_time()
        run()
        times.append(time.process_time() - start)
    return statistics.median(times)


def main() -> None:
    data: Any = dataset("conll2000").load()
    train, test = data.inputs[: data.n_train], data.inputs[data.n_train :]
    templates = Templates(TEMPLATE, columns=["w", "pos"])
    print(f"featurise {train.n_positions:,} tokens: {seconds(lambda: templates.fit_transform(train)):.2f} s")
    model = ChainCRF(
        l1=0.25, l2=0.25, all_possible_states=False, all_possible_transitions=False, max_iter=10, n_threads=1
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(templates.transform(train), data.labels[: data.n_train])
    spent = seconds(lambda: model.predict(test))
    print(
        f"tag {test.n_positions:,} tokens from columns: {spent:.3f} s, {test.n_positions / spent:,.0f} tokens/s"
    )


if __name__ == "__main__":
    main()
