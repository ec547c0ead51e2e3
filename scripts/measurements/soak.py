"""Trainings, predictions, savings and loadings, again and again: in threads, in processes, and on a Dask cluster.

Each round does the same work everywhere at once, and every result has to be that of the first round, to the bit. For
each quarter of the time a line shows the resident memory at its start and its end: of this process, of the worker
processes, and of those of the cluster (left out where Dask is not installed).
"""

from __future__ import annotations

import hashlib
import importlib.util
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from harness.measuring import processes_below, quietly, resident_memory

import crfqn
from crfqn import ChainCRF, MulticlassCRF

PER_KIND = 2  # threads, processes, and workers of the cluster
ITEMS, LENGTH, LABELS, FEATURES = 60, 8, 5, 40


def sentences(seed: int) -> tuple[list[Any], list[list[int]]]:
    """Return items of rows, and labels that the rows and their neighbours tell."""
    random = np.random.default_rng(seed)
    rows = random.random((ITEMS, LENGTH, FEATURES)) * (random.random((ITEMS, LENGTH, FEATURES)) < 0.3)
    labels = rows[:, :, :LABELS].argmax(axis=2)
    labels[:, 1:] = (labels[:, 1:] + labels[:, :-1] % 2) % LABELS
    return list(rows), labels.tolist()


def used(model: Any, X: Any) -> str:
    """Save, load and predict; return a hash of the weights and of what is predicted before and after."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.crfqn"
        model.save(path)
        again = crfqn.load(path)
    digest = hashlib.sha256(model.coef_.data.tobytes())
    for each in (model, again):
        digest.update(repr([list(np.atleast_1d(labels)) for labels in each.predict(X)]).encode())
    return digest.hexdigest()


def cycle(client: Any = None) -> list[str]:
    """Train, save, load and predict, here or on a cluster; return hashes."""
    X, y = sentences(0)
    with quietly():
        if client is not None:
            shared = ChainCRF(l1=0.3, dask_client=client).fit([partial(sentences, 1), partial(sentences, 2)])
            return [used(shared, X)]
        chain = ChainCRF(l1=0.3, n_threads=2).fit(X, y)
        rows, labels = np.concatenate(X), np.concatenate(y)
        return [used(chain, X), used(MulticlassCRF(l1=1.0).fit(rows, labels), rows)]


@contextmanager
def cluster() -> Iterator[Any]:
    """Open a client of a cluster of worker processes, None without Dask."""
    if importlib.util.find_spec("distributed") is None:
        yield None
        return
    from distributed import Client, LocalCluster

    quiet: dict[str, Any] = {"dashboard_address": ":0", "silence_logs": 50}
    with LocalCluster(PER_KIND, threads_per_worker=1, **quiet) as made, Client(made) as client:
        yield client


def one_round(kinds: dict[str, Executor], client: Any) -> dict[str, list[list[str]]]:
    """Do the same work everywhere at once; return the hashes by kind."""
    running = {name: [pool.submit(cycle) for _ in range(PER_KIND)] for name, pool in kinds.items()}
    of_cluster = {"cluster": [cycle(client)]} if client is not None else {}
    return of_cluster | {name: [each.result() for each in futures] for name, futures in running.items()}


def soak(seconds: float, work: Callable[[], Any], kinds: dict[str, list[int]]) -> None:
    """Repeat the work for so long; print the memory of processes by kind for each quarter."""
    expected, n_rounds, started = work(), 0, time.monotonic()
    for quarter in range(4):
        before, first_round = [resident_memory(pids) / 1e6 for pids in kinds.values()], n_rounds
        while time.monotonic() < started + (quarter + 1) * seconds / 4:
            results = work()
            if results != expected:
                raise SystemExit(f"round {n_rounds}: {results} instead of the first round's {expected}")
            n_rounds += 1
        after = [resident_memory(pids) / 1e6 for pids in kinds.values()]
        cells = (f"{name} {a:.1f} -> {b:.1f} MB" for name, a, b in zip(kinds, before, after, strict=True))
        print(f"quarter {quarter + 1}:", *cells, f"{n_rounds - first_round} rounds", sep="  ", flush=True)
    print(f"{n_rounds} rounds, all results the same to the bit")


def main(minutes: Annotated[float, typer.Option(min=0.1, help="How long.")] = 2.0) -> None:
    """Soak for some minutes."""
    warnings.simplefilter("ignore", ResourceWarning)
    with ExitStack() as stack:
        before = processes_below()
        client = stack.enter_context(cluster())
        of_cluster = processes_below() - before
        pools: dict[str, Executor] = {
            "threads": stack.enter_context(ThreadPoolExecutor(PER_KIND)),
            "processes": stack.enter_context(ProcessPoolExecutor(PER_KIND, get_context("spawn"))),
        }
        one_round(pools, client)  # starts and compiles
        workers = processes_below() - before - of_cluster
        kinds = {"threads": [], "processes": [*workers], "cluster": [*of_cluster]}
        soak(60 * minutes, lambda: one_round(pools, client), kinds)
