"""Data larger than memory: chains of generated words, written and trained on block by block.

    python scripts/large.py --positions 2500000 --positions 5000000 --positions 10000000 --positions 20000000
    python scripts/large.py --positions 20000000 --words 95 --steps 2        # a store of some 6 GB

Every size runs in a process of its own: seconds and memory of writing, seconds a pass, peak memory of the training
(`ru_maxrss`, all that was ever resident) beside the size of the blocks, and in the end slope and R^2 of the seconds a
pass over the positions.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Annotated, Any

import numpy as np
import scipy.sparse
import typer
from harness.options import SEVERAL, command

from crfqn import Blocks, ChainCRF, Sequences

BATCH = 50_000  # positions made at a time
app = command()


def batches(
    n_positions: int, n_words: int, n_features: int, n_labels: int
) -> Iterator[tuple[Sequences, list[str]]]:
    """Yield items of 5 to 25 positions with `n_words` features each, half of which tell of the label."""
    for number in range(-(-n_positions // BATCH)):
        random = np.random.default_rng(number)
        cuts = np.cumsum(random.integers(5, 26, BATCH // 5))
        offsets = np.concatenate([[0], cuts[cuts < BATCH], [BATCH]])
        stay = random.random(BATCH) < 0.5
        labels = random.integers(0, n_labels, BATCH)
        labels = labels[np.maximum.accumulate(np.where(stay, 0, np.arange(BATCH)))]  # runs of a label
        ranks = np.minimum(random.zipf(1.3, (BATCH, n_words)) - 1, n_features // n_labels - 1)
        told = random.random((BATCH, n_words)) < 0.5
        columns = np.where(
            told, ranks * n_labels + labels[:, None], random.integers(0, n_features, ranks.shape)
        )
        indptr = np.arange(0, columns.size + 1, n_words)
        matrix = scipy.sparse.csr_array(
            (np.ones(columns.size, np.float32), columns.ravel().astype(np.int32), indptr), (BATCH, n_features)
        )
        matrix.sum_duplicates()
        matrix.data[:] = 1.0
        yield Sequences(matrix, offsets), [f"L{label:02}" for label in labels.tolist()]


def peak() -> float:
    """Return the most that was ever resident, in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024.0


def measure(options: SimpleNamespace, n_positions: int) -> dict[str, Any]:
    """Write, train and return the figures of a size."""
    sizes = n_positions, options.words, options.features, options.labels
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        started, spent = time.perf_counter(), time.process_time()
        blocks = Blocks.write(Path(folder) / "blocks", lambda: batches(*sizes))
        found: dict[str, Any] = {
            "positions": int(blocks.n_positions.sum()),
            "store_bytes": int(blocks.n_bytes.sum()),
            "write_seconds": time.perf_counter() - started,
            "write_processor": time.process_time() - spent,
            "write_peak": peak(),
        }
        model = ChainCRF(l1=options.l1, max_iter=options.steps, n_threads=options.threads)
        started, spent = time.perf_counter(), time.process_time()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # so few steps end nowhere
            model.fit(blocks)
        result = model.result_
        rows = result.trace.rows
        passes, seconds = rows[-1].passes - rows[0].passes, rows[-1].seconds - rows[0].seconds
        found |= {
            "fit_seconds": time.perf_counter() - started,
            "fit_processor": time.process_time() - spent,
            "passes": result.passes,
            "seconds_a_pass": seconds / passes,
            "peak": peak(),
            "value": result.value,
            "n_nonzero": result.n_nonzero,
        }
        return found


@app.command()
def main(
    positions: Annotated[list[int], typer.Option(min=BATCH, help=f"A size. {SEVERAL}")],
    words: Annotated[int, typer.Option(help="Features of a position.")] = 10,
    features: int = 100_000,
    labels: int = 8,
    l1: float = 20.0,
    steps: int = 6,
    threads: int | None = None,
    folder: Annotated[
        str | None,
        typer.Option(help="Where the blocks are written; by default the system's temporary folder."),
    ] = None,
    one: Annotated[int | None, typer.Option(hidden=True)] = None,
) -> None:
    """Measure all sizes, each in a process of its own."""
    options = SimpleNamespace(
        words=words, features=features, labels=labels, l1=l1, steps=steps, threads=threads, folder=folder
    )
    if one:
        print(json.dumps(measure(options, one)))
        return
    rows = []
    for size in positions:
        command = [sys.executable, __file__, *sys.argv[1:], "--one", str(size)]
        rows.append(json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout))
        row = rows[-1]
        print(
            f"{row['positions']:>12,} positions, {row['store_bytes'] / 1e9:.2f} GB: "
            f"written in {row['write_seconds']:.0f} s (peak {row['write_peak'] / 1e9:.2f} GB), "
            f"{row['passes']:.1f} passes in {row['fit_seconds']:.0f} s, "
            f"{row['seconds_a_pass']:.2f} s a pass, peak {row['peak'] / 1e9:.2f} GB",
            flush=True,
        )
    if len(rows) > 2:
        x, y = (np.array([row[name] for row in rows], float) for name in ("positions", "seconds_a_pass"))
        slope, start = np.polyfit(x, y, 1)
        r2 = 1 - np.sum((y - slope * x - start) ** 2) / np.sum((y - y.mean()) ** 2)
        print(f"seconds a pass = {slope * 1e6:.4f} per million positions {start:+.3f}, R^2 = {r2:.4f}")


if __name__ == "__main__":
    app()
