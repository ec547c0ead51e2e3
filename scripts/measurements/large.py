"""Data larger than memory: chains of generated words, written and trained on block by block.

Every size runs in a process of its own: seconds and memory of writing, seconds a pass, peak memory of the training
(all that was ever resident) beside the size of the blocks, and in the end slope and R^2 of the seconds a
pass over the positions.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import scipy.sparse
import typer
from harness.measuring import peak_memory, quietly, run_alone
from harness.options import SEVERAL
from harness.report import Record

from crfqn import Blocks, ChainCRF, Sequences

BATCH = 50_000  # positions made at a time


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
        is_telling = random.random((BATCH, n_words)) < 0.5
        telling = ranks * n_labels + labels[:, None]
        columns = np.where(is_telling, telling, random.integers(0, n_features, ranks.shape))
        indptr = np.arange(0, columns.size + 1, n_words)
        matrix = scipy.sparse.csr_array(
            (np.ones(columns.size, np.float32), columns.ravel().astype(np.int32), indptr), (BATCH, n_features)
        )
        matrix.sum_duplicates()
        matrix.data[:] = 1.0
        yield Sequences(matrix, offsets), [f"L{label:02}" for label in labels.tolist()]


def measure(
    n_positions: int, words: int, features: int, labels: int, folder: str | None, **settings: Any
) -> Record:
    """Write, train and return the figures of a size; run in a process of its own, whose peak of memory is read."""
    with tempfile.TemporaryDirectory(dir=folder) as name:
        started, spent = time.perf_counter(), time.process_time()
        blocks = Blocks.write(Path(name) / "blocks", lambda: batches(n_positions, words, features, labels))
        figures: Record = {
            "positions": int(blocks.n_positions.sum()),
            "store_bytes": int(blocks.n_bytes.sum()),
            "write_seconds": time.perf_counter() - started,
            "write_processor": time.process_time() - spent,
            "write_peak": peak_memory(),
        }
        started, spent = time.perf_counter(), time.process_time()
        with quietly():  # so few steps end nowhere
            result = ChainCRF(**settings).fit(blocks).result_
        first, last = result.trace.rows[0], result.trace.rows[-1]
        return figures | {
            "fit_seconds": time.perf_counter() - started,
            "fit_processor": time.process_time() - spent,
            "passes": result.passes,
            "seconds_a_pass": (last.seconds - first.seconds) / (last.passes - first.passes),
            "peak": peak_memory(),
            "value": result.value,
            "n_nonzero": result.n_nonzero,
        }


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
) -> None:
    """Measure all sizes, each in a process of its own."""
    settings: Record = {"l1": l1, "max_iter": steps, "n_threads": threads}
    rows = []
    for size in positions:
        row = run_alone(measure, size, words, features, labels, folder, **settings)
        rows.append(row)
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
