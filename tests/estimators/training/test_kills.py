"""Trainings that are killed, at any moment, go on from their checkpoint to the same optimum.

`python tests/estimators/training/test_kills.py 50` kills so many times and prints the figures; tests kill a few times.
With the address of a Dask scheduler as well, the trainings that are killed have their items on its workers.
"""

from __future__ import annotations

import multiprocessing
import os
import shutil
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from crfqn import ChainCRF
from crfqn.data.model_file import read_model
from crfqn.result import Status

FILE, TOL = "checkpoint.crfqn", 1e-5


def data(first: int = 0, last: int | None = None):
    """Chains of ten labels that features tell a little of, and neighbours something; or some of them."""
    random = np.random.default_rng(0)
    offsets = np.arange(0, 4001, 20)
    labels = random.integers(0, 10, offsets[-1])
    labels[1::2] = (labels[::2] + random.integers(0, 2, labels.size // 2)) % 10
    rows = random.random((labels.size, 60)) < 0.1
    rows[np.arange(labels.size), labels] |= random.random(labels.size) < 0.5
    parts = offsets[1:-1]
    items = [part.tolist() for part in np.split(labels.astype(str), parts)]
    return np.split(rows.astype(float), parts)[first:last], items[first:last]


def train(folder: Path, scheduler: str | None = None, every: int = 1) -> ChainCRF:
    """Train, with a checkpoint after every step."""
    given = data() if scheduler is None else ([partial(data, 0, 100), partial(data, 100)],)
    settings = {"tol": TOL, "stop": "certificate", "max_iter": 1000, "n_threads": 1}
    model = ChainCRF(l1=1.0, checkpoint=folder, checkpoint_every=every, dask_client=scheduler, **settings)
    return model.fit(*given)


def objective_and_passes(folder: Path, scheduler: str | None) -> tuple[float, float]:
    """Train; return the objective, and the passes over the data."""
    result = train(folder, scheduler).result_
    assert result.status is Status.CONVERGED
    return result.value, result.passes


def train_alone(folder: Path, scheduler: str | None) -> tuple[float, float]:
    """Train in a process of its own: one that has threads of Dask cannot be forked."""
    if scheduler is None:
        return objective_and_passes(folder, None)
    with ProcessPoolExecutor(1, multiprocessing.get_context("fork")) as pool:
        return pool.submit(objective_and_passes, folder, scheduler).result()


def kill(n_kills: int, folder: Path, seed: int = 0, scheduler: str | None = None) -> dict[str, float]:
    """Kill trainings at random moments, as many as said, and let each go on to its end; returns what was seen.

    Passes that a killed process has made after its last checkpoint count for neither training.
    """
    random, fork = np.random.default_rng(seed), multiprocessing.get_context("fork")
    shutil.rmtree(folder, ignore_errors=True)
    train(folder / "first")  # compiles
    train_alone(folder / "there", scheduler)
    started = time.perf_counter()
    value, passes = train_alone(folder / "timed", scheduler)
    longest = time.perf_counter() - started
    target, shares = folder / "killed", []
    seen = {"kills": 0, "in a writing": 0, "other optima": 0, "left behind": 0}
    while seen["kills"] < n_kills:
        process = fork.Process(target=train, args=(target, scheduler))
        process.start()
        process.join(random.uniform(0.0, longest))
        if process.is_alive():
            process.kill()
            process.join()
            seen["kills"] += 1
            seen["in a writing"] += any(target.glob(".*.part"))
            if (target / FILE).exists():
                read_model(target / FILE)  # raises for half a file
        again, more = train_alone(target, scheduler)
        seen["other optima"] += abs(again - value) > TOL * value
        seen["left behind"] += len([path for path in target.iterdir() if path.name != FILE])
        shares.append(more / passes - 1.0)
        shutil.rmtree(target)
    return seen | {"more passes, median": float(np.median(shares)), "at most": max(shares)}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="kills forks of a process that has compiled")
def test_killed_trainings_end_at_the_same_optimum(tmp_path):
    seen = kill(4, tmp_path)
    assert seen["kills"] == 4
    assert seen["other optima"] == seen["left behind"] == 0
    assert seen["more passes, median"] < 0.5


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        seen = kill(int(sys.argv[1]), Path(name), int(time.time()), *sys.argv[2:])
    for what, number in seen.items():
        print(f"{what}: {number:.3g}")
