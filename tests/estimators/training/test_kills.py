"""Trainings that are killed, at any moment, go on from their checkpoint and lose nothing.

`python tests/estimators/training/test_kills.py 50` kills so many times and prints the figures; tests kill a few times.
"""

from __future__ import annotations

import multiprocessing
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pytest

from crfqn import ChainCRF
from crfqn.data.model_file import read_model

FILE = "checkpoint.crfqn"


def data():
    """Chains of ten labels that features tell a little of, and neighbours something."""
    random = np.random.default_rng(0)
    offsets = np.arange(0, 4001, 20)
    labels = random.integers(0, 10, offsets[-1])
    labels[1::2] = (labels[::2] + random.integers(0, 2, labels.size // 2)) % 10
    rows = random.random((labels.size, 60)) < 0.1
    rows[np.arange(labels.size), labels] |= random.random(labels.size) < 0.5
    parts = offsets[1:-1]
    return np.split(rows.astype(float), parts), [
        part.tolist() for part in np.split(labels.astype(str), parts)
    ]


def train(folder: Path, every: int = 1) -> ChainCRF:
    """Train, with a checkpoint after every step."""
    settings = {"tol": 1e-5, "stop": "certificate", "max_iter": 1000, "n_threads": 1}
    return ChainCRF(l1=1.0, checkpoint=folder, checkpoint_every=every, **settings).fit(*data())


def weights(model: ChainCRF) -> tuple[bytes, bytes, list[float]]:
    """Return weights and trace, but for the times, to the bit."""
    return model.coef_.data.tobytes(), model.edge_coef_.data.tobytes(), model.result_.trace.value.tolist()


def kill(n_kills: int, folder: Path, seed: int = 0) -> dict[str, object]:
    """Train, kill at random moments and train again, until there are so many kills; returns what was seen."""
    random, fork = np.random.default_rng(seed), multiprocessing.get_context("fork")
    shutil.rmtree(folder, ignore_errors=True)
    train(folder / "first")  # compiles
    started = time.perf_counter()
    whole = weights(train(folder / "timed"))
    longest = time.perf_counter() - started
    target, seen = folder / "killed", {"kills": 0, "in a writing": 0, "ends": 0, "other bits": 0}
    while seen["kills"] < n_kills:
        process = fork.Process(target=train, args=(target,))
        process.start()
        process.join(random.uniform(0.0, longest))
        if process.is_alive():
            process.kill()
            process.join()
            seen["kills"] += 1
            seen["in a writing"] += any(target.glob(".*.part"))
            if (target / FILE).exists():
                read_model(target / FILE)  # raises for half a file
        else:
            seen["ends"] += 1
            seen["other bits"] += weights(train(target)) != whole
            shutil.rmtree(target)
    seen["other bits"] += weights(train(target)) != whole
    seen["left behind"] = len([path for path in target.iterdir() if path.name != FILE])
    return seen


@pytest.mark.skipif(not hasattr(os, "fork"), reason="kills forks of a process that has compiled")
def test_killed_trainings_lose_nothing(tmp_path):
    seen = kill(4, tmp_path)
    assert seen["kills"] == 4
    assert seen["other bits"] == 0
    assert seen["left behind"] == 0


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        seen = kill(int(sys.argv[1]), Path(name), seed=int(time.time()))
    print(
        "| fault | tries | in a writing | trainings ended | other bits | left behind |\n" + 6 * "|---" + "|"
    )
    print("| kill -9", *map(str, seen.values()), sep=" | ", end=" |\n")
