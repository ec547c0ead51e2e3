#!/usr/bin/env python
"""Where the resident memory of a small training is: what each part of it adds, in one process, and how long it takes.

    python scripts/footprint.py

Linux. Run it twice: the first training of a machine compiles, which takes some 60 MB more.
"""

import random
import sys
from argparse import ArgumentParser
from collections.abc import Callable
from importlib import import_module
from time import process_time

from harness.measuring import peak_memory, resident_memory

N_ITEMS, LENGTH = 20, 15  # 300 positions


def train() -> None:
    from crfqn import ChainCRF, word_features

    draw = random.Random(0)
    items = [[f"{draw.choice('abc')}{draw.randrange(60)}" for _ in range(LENGTH)] for _ in range(N_ITEMS)]
    labels = [[draw.choice(["O", word[0]]) for word in item] for item in items]
    ChainCRF().fit([word_features(item) for item in items], labels)


def importing(*names: str) -> Callable[[], object]:
    """Return a step that imports modules."""
    return lambda: [import_module(name) for name in names]


STEPS: dict[str, Callable[[], object]] = {
    "interpreter": lambda: None,
    "numpy": importing("numpy"),
    "scipy: sparse, linalg, special": importing("scipy.sparse", "scipy.linalg", "scipy.special"),
    "scikit-learn's base, with scipy.stats, pandas, pyarrow": importing("sklearn.base"),
    "llvmlite": importing("llvmlite.binding"),
    "numba": importing("numba"),
    "crfqn, `from crfqn import ChainCRF`": importing("crfqn.estimators.chain"),
    "a training on 300 words: compiled code, data": train,
}
ALL_OF_SCIKIT_LEARN = {
    "scikit-learn's metrics and model selection": importing("sklearn.metrics", "sklearn.model_selection")
}


def main() -> None:
    print("| | MB more | MB | processor s |\n|---|---|---|---|")
    before, began = 0.0, 0.0
    for name, step in (STEPS | ALL_OF_SCIKIT_LEARN).items():
        if name == next(iter(ALL_OF_SCIKIT_LEARN)):
            print(f"| the largest so far | | {peak_memory() / 1e6:.0f} | |")
        step()
        size, now = resident_memory() / 1e6, process_time()
        print(f"| {name} | {size - before:.0f} | {size:.0f} | {now - began:.2f} |")
        before, began = size, now
    print(f"\n{len(sys.modules)} modules")


if __name__ == "__main__":
    ArgumentParser(description=__doc__).parse_args()
    main()
