#!/usr/bin/env python
"""Two versions of crfqn by turns: passes over the data and processor seconds of fits of every development set.

    git worktree add /tmp/before HEAD~20
    python scripts/compare_versions.py /tmp/before .
    python scripts/compare_versions.py /tmp/before . --data few-digits --tol 1e-3 --turns 1

Each version trains in a process of its own, with its own `scripts/harness/`, on one thread, after a fit of few items
that compiles; both take turns, and the medians of the seconds are compared. The passes of a version are the same in
each turn. Exit code 1: some passes or objectives differ.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from statistics import median
from typing import Annotated, Any

import typer
from harness.default_sets import MULTILABEL, QUICK, SETS
from harness.measuring import say
from harness.options import command, some_of
from harness.report import Table

TOLERANCES = (3e-2, 1e-3, 1e-4)
SAME = 1e-9  # relative, of objectives
WORKER = """
import json, sys, time, warnings
tree = sys.argv[1]
sys.path[:0] = [tree, tree + "/scripts"]
import crfqn
from harness.default_sets import MULTILABEL, QUICK, SETS
assert crfqn.__file__.startswith(tree), crfqn.__file__
warnings.simplefilter("ignore")
sets, known = {}, SETS | MULTILABEL | QUICK
for line in sys.stdin:
    name, settings = json.loads(line)
    source = sets.get(name) or known[name]()
    sets = {name: source}
    strengths = {"group_l1": "auto"} if name in MULTILABEL else {"l1": "auto", "l2": 0.0}
    X, y = source.items.X_train, source.items.y_train
    if settings is None:
        source.model(**strengths, n_threads=1, max_iter=3).fit(X[:30], y[:30])
        print("{}", flush=True)
        continue
    model = source.model(**strengths, n_threads=1, **settings)
    begin = time.process_time()
    model.fit(X, y)
    seconds, result = time.process_time() - begin, model.result_
    found = {"passes": result.passes, "value": result.value, "status": result.status.name, "seconds": seconds}
    print(json.dumps(found), flush=True)
"""

app = command()


class Version:
    """A version in a process of its own, which trains what it is told."""

    def __init__(self, tree: Path) -> None:
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        command = [sys.executable, "-c", WORKER, str(tree.resolve())]
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        self.process = subprocess.Popen(command, env=environment, **pipes)

    def fit(self, name: str, settings: dict[str, Any] | None) -> dict[str, Any]:
        """Train on a set; None: on few of its items, to compile."""
        assert self.process.stdin is not None and self.process.stdout is not None  # noqa: PT018
        print(json.dumps([name, settings]), file=self.process.stdin, flush=True)
        answer = self.process.stdout.readline()
        if not answer:
            raise SystemExit(f"a version has ended at {name}: exit code {self.process.wait()}")
        return json.loads(answer)

    def close(self) -> None:
        self.process.communicate()


def compare(versions: list[Version], name: str, tol: float, turns: int) -> tuple[list[dict[str, Any]], float]:
    """Return what the versions say of a fit, with the median of their seconds, and the ratio of these, new to old."""
    fits: list[list[dict[str, Any]]] = [[] for _ in versions]
    for _ in range(turns):
        for runs, version in zip(fits, versions, strict=True):
            runs.append(version.fit(name, {"tol": tol}))
    old, new = (runs[0] | {"seconds": median(run["seconds"] for run in runs)} for runs in fits)
    return [old, new], new["seconds"] / max(old["seconds"], 1e-9)


def are_same(old: dict[str, Any], new: dict[str, Any]) -> bool:
    """Return whether passes, status and objectives are the same."""
    is_near = abs(new["value"] - old["value"]) <= SAME * abs(old["value"])
    return is_near and all(new[name] == old[name] for name in ("passes", "status"))


@app.command()
def main(
    before: Annotated[
        Path, typer.Argument(exists=True, file_okay=False, help="A checkout of the version before.")
    ],
    after: Annotated[
        Path, typer.Argument(exists=True, file_okay=False, help="A checkout of the version after.")
    ],
    data: Annotated[list[str] | None, some_of([*SETS, *MULTILABEL, *QUICK])] = None,
    tol: Annotated[list[float] | None, typer.Option(help="Default: 3e-2, 1e-3 and 1e-4.")] = None,
    turns: Annotated[int, typer.Option(min=1, help="Fits of each version.")] = 3,
) -> None:
    """Print the table, a set and tolerance a row."""
    versions, rows, n_different = [Version(before), Version(after)], [], 0
    for name in data or [*SETS, *MULTILABEL]:
        for version in versions:
            version.fit(name, None)
        for each in tol or TOLERANCES:
            (old, new), ratio = compare(versions, name, each, turns)
            is_same = are_same(old, new)
            n_different += not is_same
            cells = [f"{run['passes']:g}" for run in (old, new)]
            cells += [f"{run['seconds']:.2f}" for run in (old, new)]
            rows.append([name, f"{each:g}", *cells, f"{ratio:.3f}", "" if is_same else "differs"])
            say(" | ".join(rows[-1]))
    for version in versions:
        version.close()
    head = ["set", "tol", "passes", "passes after", "seconds", "seconds after", "ratio", ""]
    print(Table("Two versions by turns", head, rows).markdown())
    raise typer.Exit(int(n_different > 0))


if __name__ == "__main__":
    app()
