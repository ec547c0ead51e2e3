"""What a training on texts holds at its peaks: the sizes of numpy's arrays by the file that has made them.

A thread looks at the memory every few milliseconds. There is a peak for each file of `solvers/` that was at work; those
below a share of the largest one are left out. The resident memory is that of a training before, without tracing.
"""

from __future__ import annotations

import sys
import threading
import tracemalloc
from collections import Counter
from pathlib import Path
from traceback import walk_stack
from typing import Annotated

import numpy as np
import typer
from harness.data import MADE_UP, SOURCES, Texts, entity_texts
from harness.measuring import peak_memory, resident_memory

import crfqn

SECONDS_BETWEEN, RISE = (
    0.003,
    1.01,
)  # between two looks at the memory; of a peak over the last one that was recorded
SHOWN = 0.75  # peaks from this share of the largest one on
FEW = 0.5e6  # bytes of a file that are not listed
ARRAYS = np.lib.tracemalloc_domain
FOLDER = Path(crfqn.__file__).parent


class Watch(threading.Thread):
    """Records the arrays at the peak of each file of `solvers/` that the main thread is in.

    peaks : file -> (all bytes, file that has made arrays -> their bytes)
    """

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.main, self.ends = threading.get_ident(), threading.Event()
        self.peaks: dict[str, tuple[int, Counter[str]]] = {}

    def run(self) -> None:
        while not self.ends.wait(SECONDS_BETWEEN):
            size = tracemalloc.get_traced_memory()[0]
            files = (frame.f_code.co_filename for frame, _ in walk_stack(sys._current_frames()[self.main]))
            place = next((name for name in map(below_crfqn, files) if name.startswith("solvers")), None)
            if place is not None and size > RISE * self.peaks.get(place, (0, Counter()))[0]:
                self.peaks[place] = size, sizes_by_file()


def below_crfqn(file: str) -> str:
    """Return the path of a file below the package; empty for other files."""
    return Path(file).relative_to(FOLDER).as_posix() if Path(file).is_relative_to(FOLDER) else ""


def sizes_by_file() -> Counter[str]:
    """Return the bytes of all arrays by the innermost file of crfqn that has made them."""
    snapshot = tracemalloc.take_snapshot().filter_traces([tracemalloc.DomainFilter(True, ARRAYS)])
    sizes: Counter[str] = Counter()
    for trace in snapshot.traces:
        files = [name for frame in trace.traceback if (name := below_crfqn(frame.filename))]
        sizes[files[-1] if files else "others"] += trace.size
    return sizes


def main(
    data: Annotated[str, typer.Option(help=f"{', '.join(SOURCES)}, entities or {MADE_UP}.")] = "dutch-xpos",
    penalty: Annotated[float, typer.Option(help="l1 and half of l2, as CRFsuite's c1 and c2.")] = 0.1,
) -> None:
    """Print what the second of two equal trainings on dicts of features holds at its peaks."""
    texts = entity_texts() if data == "entities" else Texts.load(data)
    items, labels = texts.dicts[0], texts.y_train
    print(f"{data}: {texts.describe()}")
    settings = {"all_possible_states": False, "all_possible_transitions": False}
    model = crfqn.ChainCRF(l1=penalty, l2=2 * penalty, n_threads=1, **settings)
    before = resident_memory()
    model.fit(items, labels)
    print(f"{before / 1e6:.0f} MB before the training, {peak_memory() / 1e6:.0f} MB at its peak\n")
    tracemalloc.start(16)
    watch = Watch()
    watch.start()
    model.fit(items, labels)
    watch.ends.set()
    watch.join()
    largest = max((sum(sizes.values()) for _, sizes in watch.peaks.values()), default=0)
    peaks = {
        place: sizes for place, (_, sizes) in watch.peaks.items() if sum(sizes.values()) > SHOWN * largest
    }
    print(f"| MB of arrays of | {' | '.join(peaks)} |\n|---{'|---' * len(peaks)}|")
    files = sorted({file for sizes in peaks.values() for file in sizes if sizes[file] >= FEW})
    for file in files:
        print(f"| `{file}` | {' | '.join(f'{sizes[file] / 1e6:.0f}' for sizes in peaks.values())} |")
    print(f"| all | {' | '.join(f'{sum(sizes.values()) / 1e6:.0f}' for sizes in peaks.values())} |")
