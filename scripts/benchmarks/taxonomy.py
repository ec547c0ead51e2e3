"""Taxonomies of labels: crfqn's taxonomy beside its own flat softmax, and a very large one.

LSHTC1 (web pages, 2387 nodes) and ImageCLEF (X-rays, 96 nodes) as the recipes prepare them. The reference optimum of a
penalty is crfqn's own, certified.
"""

from __future__ import annotations

from functools import partial
from itertools import pairwise, product
from typing import Annotated

import numpy as np
import typer
from harness.comparing import Comparison, Section, by_turns
from harness.data import zipf
from harness.judging import judge_run, predictions, worth
from harness.options import Output, Penalties, Repeats, Threads, some_of
from harness.problems import Problem, Run, first_row, stored
from harness.report import Record, Table, number, shown

from benchmarks import crfqn_fits

LEVEL = 1e-4  # relative distance from the optimum
TOL, LONGEST = 1e-5, 300.0  # certified gap, seconds
TITLES = {
    "lshtc1": "LSHTC1, Task 2",
    "lshtc1-task1": "LSHTC1, Task 1, validation part",
    "imageclef": "ImageCLEF 2007",
}
LARGE, LARGE_L1, LARGE_TOL = "large", 3.3, 1e-3
# The large one: 5 billion weights of a million words and 5000 nodes in four levels.
N_FEATURES, N_TRAIN, N_TEST, N_TOKENS = 1_000_000, 20_000, 2_000, 100
SIZES = (10, 100, 890, 4000)  # nodes by level
NODE_WORDS, NODE_SHARE = 30, 0.25


def measure(name: str, l1: float, n_threads: int | None, turns: int) -> Record:
    """Train over the taxonomy and flat by turns, each run in a process of its own; judge the first of each."""
    problem = large_problem() if name == LARGE else Problem.of_recipe(name)
    problems = {"taxonomy": problem} | ({} if name == LARGE else {"flat": problem.flat()})
    tol, longest = (LARGE_TOL, 3 * LONGEST) if name == LARGE else (TOL, LONGEST)
    models = {}
    with stored(problem) as path, stored(problem.flat()) as flat_path:
        paths = {"taxonomy": path, "flat": flat_path}
        arguments = l1, tol, n_threads, longest
        tasks = {each: partial(crfqn_fits.train_items, paths[each], *arguments) for each in problems}
        runs = by_turns(tasks, turns)
    for structure, items in problems.items():
        run: Run = runs[structure][0]
        verdict = judge_run(items, run, l1).verdict
        is_reached = run.values <= verdict.objective * (1.0 + LEVEL), run.facts["gaps"] <= LEVEL
        rows = map(first_row, is_reached)
        models[structure] = {
            name: None if row is None else [float(np.median([each.seconds[min(row, each.seconds.size - 1)]
                                                              for each in runs[structure]])),
                                            float(run.facts["row_passes"][row])]
            for name, row in zip(("reached", "proved"), rows, strict=True)
        } | {
            "gap": run.facts["gap"], "objective": verdict.objective, "n_nonzero": run.n_nonzero,
            "accuracy": verdict.accuracy, "f1": worth(problem, predictions(items, run.weights))[1],
            "peak_bytes": run.peak_bytes, "bytes": run.facts["file_bytes"],
        }  # fmt: skip
    return {"data": problem.fingerprint, "about": problem.describe(), "models": models}


def section(records: list[Record]) -> Section:
    """A penalty and structure a row, a table a problem."""

    def cost(pair: list[float] | None) -> str:
        return "-" if pair is None else f"{pair[0]:.2f} ({pair[1]:.1f})"

    costs = [f"s (passes) to {what}{shown(LEVEL)}" for what in ("", "certified ")]
    head = ["l1", "", *costs, "gap at the end", "objective", "non-zeros", "accuracy", "hierarchical F1"]
    head += ["peak memory, MB", "file, kB"]
    tables: dict[str, Table] = {}
    for record in records:
        title = f"{TITLES.get(record['problem'], 'Made up')}: {record['about']}"
        rows = tables.setdefault(title, Table(title, head, [])).rows
        for structure, model in record["models"].items():
            row = [f"{record['l1']:g}", structure, cost(model["reached"]), cost(model["proved"])]
            row += [f"{model['gap']:.1e}", f"{model['objective']:,.2f}", f"{model['n_nonzero']:,}"]
            row += [f"{model['accuracy']:.4f}", number(model["f1"], ".4f")]
            row += [f"{model['peak_bytes'] / 1e6:.0f}"]
            rows.append([*row, f"{model['bytes'] / 1e3:.0f}"])  # type: ignore[attr-defined]
    return Section([*tables.values()])


TAXONOMY = Comparison(
    "taxonomy", "Taxonomies",
    "`TaxonomyCRF` beside `MulticlassCRF` on the same items; processor seconds from the matrix in memory, by turns. "
    "The optimum is the objective at the end of the same run, whose certified gap is given; peak memory of the "
    "process, Python, libraries and features included. `--large`: a made-up problem of 1,000,000 features and 5,000 "
    "nodes, 5 billion possible weights.",
    ["crfqn", "numba", "numpy"], section, ["--problem lshtc1 --problem lshtc1-task1 --l1 1", "--large"],
)  # fmt: skip


def taxonomy(
    problem: Annotated[list[str] | None, some_of([*TITLES])] = None,
    l1: Penalties = None,
    large: Annotated[
        bool, typer.Option("--large", help="Only the made-up problem of 5 billion weights.")
    ] = False,
    threads: Threads = 1,
    repeats: Repeats = 3,
    output: Output = None,
) -> None:
    """Taxonomies of labels: crfqn over the tree beside its own flat softmax."""
    pairs = [(LARGE, LARGE_L1)] if large else product(problem or TITLES, l1 or [1.0])
    settings = {"threads": threads, "repeats": 1 if large else repeats}
    cases = [{"problem": name, "l1": strength, **settings} for name, strength in pairs]
    TAXONOMY.measure(measure, cases, output)


def large_problem() -> Problem:
    """A million words, 5000 nodes in four levels, 20,000 documents of 100 distinct words or nearly so.

    Three quarters of a document's words follow Zipf's law over all, a quarter are words that the nodes on its label's
    path prefer. The same every time.
    """
    from scipy.sparse import csr_array

    from crfqn.taxonomy.tree import LabelTree

    generator = np.random.default_rng(0)
    parts, first = [np.full(SIZES[0], -1)], 0
    for above, below_it in pairwise(SIZES):  # parents are of the level above, each with a child at least
        chosen = np.concatenate([np.arange(above), generator.integers(0, above, below_it - above)])
        parts.append(first + np.sort(chosen))
        first += above
    parents = np.concatenate(parts)
    names = [f"node {number:04}" for number in range(parents.size)]
    leaves = np.arange(sum(SIZES[:-1]), sum(SIZES))
    n_items = N_TRAIN + N_TEST
    labels = generator.choice(leaves, n_items, p=zipf(leaves.size, 20.0))
    words = generator.choice(N_FEATURES, (n_items, N_TOKENS), p=zipf(N_FEATURES, 20.0)).astype(np.int32)
    preferred = generator.integers(0, N_FEATURES, (len(names), NODE_WORDS), dtype=np.int32)
    paths = [labels]
    while (paths[-1] >= 0).all():
        paths.append(parents[paths[-1]])
    level = generator.integers(0, len(paths) - 1, words.shape)
    nodes = np.stack(paths[:-1], axis=1)[np.arange(n_items)[:, None], level]
    is_own = generator.random(words.shape) < NODE_SHARE
    words[is_own] = preferred[nodes[is_own], generator.integers(0, NODE_WORDS, int(is_own.sum()))]
    ends = N_TOKENS * np.arange(n_items + 1)
    matrix = csr_array((np.ones(words.size), words.ravel(), ends), shape=(n_items, N_FEATURES))
    matrix.sum_duplicates()
    matrix.data[:] = 1.0
    y = np.array(names)[labels]
    tree = LabelTree(tuple(names), parents.astype(np.int32))
    return Problem(matrix[:N_TRAIN], y[:N_TRAIN], matrix[N_TRAIN:], y[N_TRAIN:], tree)
