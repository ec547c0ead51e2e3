"""Taxonomies of labels: crfqn's taxonomy against its own flat softmax, OWL-QN and hiclass, and a very large one.

LSHTC1 (web pages, 2387 nodes) and ImageCLEF (X-rays, 96 nodes) as the recipes prepare them. The reference optimum of a
penalty is crfqn's own, certified; what OWL-QN reaches on the same objective speaks for or against it.

OWL-QN is that of libLBFGS (PyLBFGS), the code that CRFsuite uses, fed with value and gradient. It knows dense vectors
only. A feature whose values sum up to l1 or less can have no weight, since no derivative at it exceeds that sum; the
others, with all nodes, are its variables, and every one of its vectors has a number for each.

hiclass has a logistic regression of scikit-learn at every parent node, or at every node. No common objective, hence
compared by accuracy, time and size. A document goes down from the top by the best child.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from itertools import pairwise
from time import perf_counter
from typing import Annotated, Any

import joblib
import numpy as np
import typer
from harness.data import zipf
from harness.judging import Judged, judge_run, predictions, weights_of, worth
from harness.measuring import file_size, peak_memory, quietly, run_alone, run_within, say
from harness.options import Limit, Output, Penalties, Threads, some_of
from harness.problems import Problem, Run, first_row, read_stored, stored
from harness.report import Promise, Record, Report, Table, below, finish, number, shown
from numpy.typing import NDArray

from benchmarks import crfqn_fits, inference

LEVEL = 1e-4  # relative distance from the optimum
LEVELS = (1e-2, 1e-3, LEVEL)
TOL, LONGEST = 1e-5, 300.0  # of crfqn: certified gap, seconds
PEER_L1 = 1.0  # where the other libraries run
ASKED = ("lshtc1", "lshtc1-task1")
MOST_SECONDS, MOST_BYTES = 60, 1.5e9  # asked of these
TITLES = {
    "lshtc1": "LSHTC1, Task 2",
    "lshtc1-task1": "LSHTC1, Task 1, validation part",
    "imageclef": "ImageCLEF 2007",
}
LARGE_L1, LARGE_TOL, LARGE_BYTES, LARGE_NONZEROS = 3.3, 1e-3, 6e9, (7_000, 14_000)
MEMORY = 6  # secant pairs: the library's default
PARENT, NODE, NODE_L1 = "per parent node", "per node", "per node, L1"
KINDS = (PARENT, NODE, NODE_L1)
# The large one: 5 billion weights of a million words and 5000 nodes in four levels.
N_FEATURES, N_TRAIN, N_TEST, N_TOKENS = 1_000_000, 20_000, 2_000, 100
SIZES = (10, 100, 890, 4000)  # nodes by level
NODE_WORDS, NODE_SHARE = 30, 0.25


@dataclass(eq=False)
class Comparison:
    """Judged runs over the taxonomy and flat by penalty, and what ran beside at PEER_L1."""

    tree: dict[float, Judged] = field(default_factory=dict)
    flat: dict[float, Judged] = field(default_factory=dict)
    owlqn: Judged | None = None
    local: dict[str, Record | None] = field(default_factory=dict)
    node_time: inference.PassTime | None = None


def taxonomy(
    problem: Annotated[list[str] | None, some_of([*TITLES])] = None,
    l1: Penalties = None,
    large: Annotated[
        bool, typer.Option("--large", help="Only the made-up problem of 5 billion weights.")
    ] = False,
    threads: Threads = 2,
    limit: Limit = 600.0,
    output: Output = None,
) -> None:
    """Taxonomies of labels: crfqn against its own flat softmax, OWL-QN and hiclass."""
    if large:
        return finish(measure_large(threads), output)
    libraries = ["crfqn", "hiclass", "PyLBFGS", "scikit-learn", "numba", "numpy"]
    report = Report("taxonomy", "Taxonomies", libraries)
    for name in problem or TITLES:
        title = TITLES[name]
        say(f"{title}: preparing")
        items = Problem.of_recipe(name)
        comparison = compare(items, l1 or [0.5, 1.0, 2.0], threads, limit)
        report.tables.append(own_table(f"{title}: {items.describe()}", comparison))
        if comparison.owlqn or comparison.local:
            report.tables.append(peer_table(title, comparison, items, limit))
        if name in ASKED:
            report.promises += _promises(title, comparison)
            report.notes += [comparison.node_time.describe_nodes()] if comparison.node_time else []
        report.numbers[name], report.data[name] = comparison, items.fingerprint
    finish(report, output)


def compare(problem: Problem, penalties: Sequence[float], n_threads: int | None, limit: float) -> Comparison:
    """Train and judge, every run in a process of its own."""
    comparison, flat = Comparison(), problem.flat()
    with stored(problem) as path, stored(flat) as flat_path:
        for l1 in penalties:
            say(f"l1 = {l1:g}: over the taxonomy, then flat")
            run = run_alone(crfqn_fits.train_items, path, l1, TOL, n_threads, LONGEST)
            comparison.tree[l1] = judge_run(problem, run, l1)
            run = run_alone(crfqn_fits.train_items, flat_path, l1, TOL, n_threads, LONGEST)
            judged, f1 = judge_run(flat, run, l1), worth(problem, predictions(flat, run.weights))[1]
            comparison.flat[l1] = Judged(run, replace(judged.verdict, hierarchical_f1=f1))
        l1 = PEER_L1 if PEER_L1 in penalties else penalties[0]
        say("inference pass")
        comparison.node_time = run_alone(inference.measure_nodes, path, comparison.tree[l1].run.weights)
        if limit and l1 == PEER_L1 and find_spec("lbfgs"):
            target = comparison.tree[l1].verdict.objective * (1 + LEVEL)
            comparison.owlqn = judge_run(problem, run_alone(owlqn, path, l1, n_threads, target, limit), l1)
        if limit and l1 == PEER_L1 and find_spec("hiclass"):
            comparison.local = {kind: run_within(limit, hiclass, path, l1, kind) for kind in KINDS}
    return comparison


def owlqn(path: str, l1: float, n_threads: int | None, target: float, limit: float) -> Run:
    """Minimise from zero until the objective is at most `target`, for `limit` seconds at the most.

    Seconds count from the matrix in memory.
    """
    from lbfgs import LBFGSError, fmin_lbfgs

    problem, rows = read_stored(path), []
    _objective(problem.part(100), n_threads).at(np.array([0]), np.ones(1)).gradient(np.array([0]))  # compiles
    begin = perf_counter()
    objective = _objective(problem, n_threads)
    n_features, n_states = objective.map.store.n_features, objective.loss.structure.n_states
    strong = np.flatnonzero(np.asarray(abs(problem.X_train).sum(axis=0)).ravel() > l1)
    coords = (n_features * np.arange(n_states)[:, None] + strong).ravel()
    latest = np.zeros(coords.size)

    def value_and_gradient(w: NDArray[np.float64], gradient: NDArray[np.float64]) -> float:
        used = np.flatnonzero(w)
        point = objective.at(coords[used], w[used])
        gradient[:] = point.gradient(coords)
        return point.value

    def note(w: Any, gradient: Any, value: float, *progress: Any) -> bool:
        """A row of the run; true stops it."""
        rows.append((progress[3], value, perf_counter() - begin))
        latest[:] = w
        return value <= target or rows[-1][2] > limit

    setup_seconds = perf_counter() - begin
    own = {"orthantwise_c": l1, "line_search": "wolfe", "m": MEMORY, "epsilon": 1e-12}
    try:
        fmin_lbfgs(value_and_gradient, np.zeros(coords.size), progress=note, **own)
    except LBFGSError as error:  # so it says as well that `note` asked it to stop
        say(f"  OWL-QN: {error}")
    peak = peak_memory()
    iterations, values, seconds = map(np.array, zip(*rows, strict=True))
    say(f"  OWL-QN: {len(rows)} iterations, {seconds[-1]:.1f} s, {values[-1]:,.1f}")
    weights, _ = weights_of(coords, latest, n_states, n_features)
    weights.eliminate_zeros()
    return Run(
        name="OWL-QN",
        iterations=iterations,
        seconds=seconds,
        values=values,
        setup_seconds=setup_seconds,
        passes=objective.n_passes,
        weights=weights,
        n_nonzero=weights.nnz,
        peak_bytes=peak,
        facts={"n_variables": coords.size},
    )


def _objective(problem: Problem, n_threads: int | None) -> Any:
    """crfqn's, over the taxonomy."""
    from crfqn.data.features import FeatureStore
    from crfqn.objectives.sums import likelihood
    from crfqn.structures.taxonomy import Taxonomy

    tree, n_items = problem.taxonomy, len(problem.y_train)
    store = FeatureStore.from_matrix(problem.X_train, np.arange(n_items + 1))
    structure = Taxonomy(tree.parents, tree.is_leaf, n_items)
    return likelihood(store, structure, tree.nodes_of(problem.y_train.tolist()), n_threads=n_threads)


def hiclass(path: str, l1: float, kind: str) -> Record:
    """Fit to the paths of the labels, and predict the test items: what the models cost; weights, and those not zero."""
    from hiclass import LocalClassifierPerNode, LocalClassifierPerParentNode
    from sklearn.linear_model import LogisticRegression

    problem: Problem = read_stored(path)
    tree = problem.taxonomy
    rows = [
        [tree.names[node] for node in tree.path(node)] for node in tree.nodes_of(problem.y_train.tolist())
    ]
    depth = max(map(len, rows))
    paths = np.array([row + [""] * (depth - len(row)) for row in rows])
    local = LogisticRegression()
    if kind == NODE_L1:
        local = LogisticRegression(solver="liblinear", l1_ratio=1.0, C=1.0 / l1)
    model = (LocalClassifierPerParentNode if kind == PARENT else LocalClassifierPerNode)(local)
    with quietly():  # of nodes with a single child, of iterations
        begin = perf_counter()
        model.fit(problem.X_train, paths)
        seconds = perf_counter() - begin
        found = model.predict(problem.X_test)
    say(f"  hiclass, {kind}: {seconds:.1f} s")
    # Of the nodes that have a classifier; a parent with a single child has one without weights.
    classifiers = [
        node["classifier"] for _, node in model.hierarchy_.nodes(data=True) if "classifier" in node
    ]
    coefficients = [classifier.coef_ for classifier in classifiers if hasattr(classifier, "coef_")]
    return {
        "seconds": seconds,
        "predicted": np.array([[name for name in row if name][-1] for row in found]),
        "n_weights": sum(weights.size for weights in coefficients),
        "n_nonzero": sum(int(np.count_nonzero(weights)) for weights in coefficients),
        "file_bytes": file_size(lambda file: joblib.dump(model, file)),
        "peak_bytes": peak_memory(),
    }


def own_table(title: str, comparison: Comparison) -> Table:
    """A penalty and structure a row."""

    def cost(run: Run, row: int | None) -> str:
        """Seconds and passes until a row of the run."""
        return "-" if row is None else f"{run.seconds[row]:.2f} ({run.facts['row_passes'][row]:.1f})"

    head = ["l1", "", f"s (passes) to {shown(LEVEL)}", f"s (passes) to certified {shown(LEVEL)}"]
    head += [
        "gap at the end",
        "objective",
        "non-zeros",
        "accuracy",
        "hierarchical F1",
        "peak memory, MB",
        "file, kB",
    ]
    rows = []
    for l1 in comparison.tree:
        for structure, judged in (("taxonomy", comparison.tree), ("flat", comparison.flat)):
            if l1 in judged:
                run, verdict = judged[l1]
                proved = first_row(run.facts["gaps"] <= LEVEL)
                reached = run.row_at(verdict.objective, LEVEL)
                row = [f"{l1:g}", structure, cost(run, reached), cost(run, proved)]
                row += [f"{run.facts['gap']:.1e}", f"{verdict.objective:,.2f}", f"{run.n_nonzero:,}"]
                row += [f"{verdict.accuracy:.4f}", f"{verdict.hierarchical_f1:.4f}"]
                rows.append([*row, f"{run.peak_bytes / 1e6:.0f}", f"{run.facts['file_bytes'] / 1e3:.0f}"])
    note = (
        "Seconds count from the matrix in memory; the optimum is the objective at the end of the same run, whose "
        "certified gap is given. Peak memory of the process, Python, libraries and features included."
    )
    return Table(title, head, rows, [note])


PEER_NOTES = [
    "OWL-QN (libLBFGS) minimises the same objective, evaluated by crfqn; it stops at "
    f"{shown(LEVEL)} above crfqn's optimum, or when its time is over.",
    "hiclass: logistic regressions of scikit-learn (one core) with its defaults, L2 of C = 1, or liblinear's L1 of "
    "C = 1 / l1; the file is joblib's.",
]


def peer_table(title: str, comparison: Comparison, problem: Problem, limit: float) -> Table:
    ends = ["whole fit, s", "accuracy", "hierarchical F1", "weights", "file, kB", "peak memory, MB"]
    head = ["", *(f"s to {shown(level)}" for level in LEVELS), *ends]
    tree = comparison.tree[PEER_L1]
    judged = {"crfqn, taxonomy": tree, "crfqn, flat": comparison.flat[PEER_L1]}
    if comparison.owlqn:
        judged[f"OWL-QN, {comparison.owlqn.run.iterations[-1]} iterations"] = comparison.owlqn

    def cells(facts: Record, accuracy: float, f1: float) -> list[str]:
        kilobytes = None if facts["file_bytes"] is None else facts["file_bytes"] / 1e3
        sizes = [f"{facts['n_nonzero']:,}", number(kilobytes, ",.0f"), f"{facts['peak_bytes'] / 1e6:,.0f}"]
        return [f"{facts['seconds']:.2f}", f"{accuracy:.4f}", f"{f1:.4f}", *sizes]

    rows = []
    for name, (run, verdict) in judged.items():
        optimum = (verdict if name == "crfqn, flat" else tree.verdict).objective
        seconds = [number(run.seconds_to(optimum, level), ".2f", "not reached") for level in LEVELS]
        facts = vars(run) | {"seconds": run.seconds[-1], "file_bytes": run.facts.get("file_bytes")}
        rows.append([name, *seconds, *cells(facts, verdict.accuracy, verdict.hierarchical_f1)])
    for kind, models in comparison.local.items():
        late = [f"not ready after {limit:g} s"] + [""] * 5
        costs = cells(models, *worth(problem, models["predicted"])) if models else late
        rows.append([f"hiclass, {kind}", *["-"] * len(LEVELS), *costs])
    return Table(f"{title}, l1 = {PEER_L1:g}, other libraries", head, rows, PEER_NOTES)


def _promises(title: str, comparison: Comparison) -> list[Promise]:
    promises = []
    if PEER_L1 in comparison.tree:
        run, verdict = comparison.tree[PEER_L1]
        at, seconds = f"{title}, l1 = {PEER_L1:g}: ", run.seconds_to(verdict.objective, LEVEL)
        assert seconds is not None  # the reference is its own
        what = f"{at}seconds to {shown(LEVEL)} of the optimum (certified: {run.facts['gap']:.0e})"
        promises.append(below(what, f"{MOST_SECONDS} s", f"{seconds:.1f} s", seconds, MOST_SECONDS))
        promises.append(_memory_promise(at, run, MOST_BYTES))
    if comparison.node_time:
        time, what = comparison.node_time, f"{title}: one inference pass, ns a node, item and core"
        promises.append(
            below(what, "12", f"{time.measured:.1f}, {time.distance:.1f} times the bound", time.measured, 12)
        )
    return promises


def _memory_promise(at: str, run: Run, most: float) -> Promise:
    what, measured = at + "peak memory of the training process", f"{run.peak_bytes / 1e9:.2f} GB"
    return below(what, f"{most / 1e9:g} GB", measured, run.peak_bytes, most)


def measure_large(n_threads: int | None) -> Report:
    """Train on 5 billion weights: what matters is that no array of this size is ever made."""
    problem = large_problem()
    report = Report("taxonomy-large", "A large taxonomy, made up", ["crfqn", "numba", "numpy"])
    with stored(problem) as path:
        run = run_alone(crfqn_fits.train_items, path, LARGE_L1, LARGE_TOL, n_threads, 3 * LONGEST)
    comparison = Comparison({LARGE_L1: judge_run(problem, run, LARGE_L1)})
    report.data["large"] = problem.fingerprint
    report.tables = [own_table(f"Large: {problem.describe()}", comparison)]
    (few, many), gap, n_nonzero = LARGE_NONZEROS, run.facts["gap"], run.n_nonzero
    report.promises = [
        below("it trains: certified relative gap", shown(LARGE_TOL), f"{gap:.1e}", gap, LARGE_TOL),
        Promise("non-zeros", "about 10,000", f"{n_nonzero:,}", few < n_nonzero < many),
        _memory_promise("", run, LARGE_BYTES),
    ]
    report.numbers = {"comparison": comparison}
    return report


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
