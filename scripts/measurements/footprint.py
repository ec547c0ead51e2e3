"""Where the resident memory of a small training is: what each part of it adds, in one process, and how long it takes.

Linux. Run it twice: the first training of a machine compiles, which takes some 60 MB more.
"""

import os
import random
import subprocess
import sys
from collections.abc import Callable
from importlib import import_module
from time import process_time

from harness.measuring import peak_memory, resident_memory

N_ITEMS, LENGTH = 20, 15  # 300 positions
LAST = "scikit-learn's metrics and model selection"


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
    LAST: importing("sklearn.metrics", "sklearn.model_selection"),
}


def main() -> None:
    """Print the resident memory of a small training, part by part, of a new process."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    subprocess.run([sys.executable, __file__], env=environment, check=True)


if __name__ == "__main__":
    print("| | MB more | MB | processor s |\n|---|---|---|---|")
    before, began = 0.0, 0.0
    for name, step in STEPS.items():
        if name == LAST:
            print(f"| the largest so far | | {peak_memory() / 1e6:.0f} | |")
        step()
        size, now = resident_memory() / 1e6, process_time()
        print(f"| {name} | {size - before:.0f} | {size:.0f} | {now - began:.2f} |")
        before, began = size, now
    print(f"\n{len(sys.modules)} modules")
