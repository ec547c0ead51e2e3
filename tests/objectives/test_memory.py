"""Memory of a training where features times states would not fit: measured from outside, in a process of its own.

450 million weights would be 3.6 GB. What is needed is the data, some arrays of the size of the scores (24 MB) and the
active set; most of the peak is what importing and compiling costs.
"""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

resource = pytest.importorskip("resource", reason="needs POSIX")

N_FEATURES, N_NODES, N_ITEMS, N_WORDS = 300_000, 1500, 2000, 30
ROOM = 2 << 30  # bytes of addresses that a training may ask for: an array of all weights would take 3.6 GB
# A new process starts with its parent's peak on its record, so a small one in between has to be the parent.
BETWEEN = "import subprocess, sys; sys.exit(subprocess.run([sys.executable, '-c', sys.argv[1]]).returncode)"


def made_up():
    """Documents x (N, F) of words, half of them such as the nodes above the label like; a forest and labels."""
    random = np.random.default_rng(0)
    parents = np.array([-1] * 5 + [*random.integers(0, np.arange(5, N_NODES) // 8 + 1)], np.int32)
    is_label = np.isin(np.arange(N_NODES), parents, invert=True)
    targets = random.choice(np.flatnonzero(is_label), N_ITEMS).astype(np.int32)
    favourites = random.integers(0, N_FEATURES, (N_NODES, 20))
    words = random.integers(0, N_FEATURES, (N_ITEMS, N_WORDS))
    for item, node in enumerate(targets):
        path = [node]
        while parents[path[-1]] >= 0:
            path.append(parents[path[-1]])
        words[item, ::2] = favourites[random.choice(path, N_WORDS // 2), random.integers(0, 20, N_WORDS // 2)]
    x = sp.csr_array(
        (np.ones(words.size), words.ravel(), np.arange(N_ITEMS + 1) * N_WORDS), (N_ITEMS, N_FEATURES)
    )
    return x, parents, is_label, targets


def limit_addresses():
    """Let no single array be as large as all weights, not even one that is never written to."""
    status = Path("/proc/self/status")
    if status.exists():
        size = next(line for line in status.read_text().splitlines() if line.startswith("VmSize"))
        limit = 1024 * int(size.split()[1]) + ROOM
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def report(result, **more):
    """Print what the parent wants to know; the peak in MB."""
    unit = 1 if sys.platform == "darwin" else 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e6
    known = {"peak": peak, "gap": result.gap, "n_nonzero": result.n_nonzero, "status": result.status.name}
    print(json.dumps(known | more))


def train_objective():
    from problems import make_likelihood

    from crfqn.data.features import FeatureStore
    from crfqn.penalties import ElasticNet
    from crfqn.solvers.minimize import minimize
    from crfqn.solvers.prox_qn import ProxQN
    from crfqn.solvers.stopping import Run
    from crfqn.structures.taxonomy import Taxonomy

    x, parents, is_label, targets = made_up()
    limit_addresses()
    store = FeatureStore.from_matrix(x, np.arange(N_ITEMS + 1))
    objective = make_likelihood(store, Taxonomy(parents, is_label, N_ITEMS), targets, n_threads=2)
    report(minimize(objective, ElasticNet(1.0), ProxQN(), Run(tol=1e-2)), n_weights=objective.n_coords)


def train_estimator():
    from crfqn import TaxonomyCRF

    x, parents, _, targets = made_up()
    limit_addresses()
    pairs = [(f"n{parent}", f"n{node}") for node, parent in enumerate(parents) if parent >= 0]
    model = TaxonomyCRF(taxonomy=pairs, l1=1.0, tol=1e-2, stop="certificate", n_threads=2).fit(
        x, [f"n{node}" for node in targets]
    )
    accuracy = model.score(x, [f"n{node}" for node in targets])
    model.predict_proba(x[:100])
    report(model.result_, n_weights=int(np.prod(model.coef_.shape)), accuracy=accuracy)


def train_without_zeros():
    """An L2 penalty alone leaves no zeros: 2.2 million weights, after a fit of a few that compiles."""
    from crfqn import TaxonomyCRF

    def train(n_items, n_features, share, n_leaves, **settings):
        random = np.random.default_rng(0)
        x = sp.random(n_items, n_features, share, format="csr", random_state=0)
        leaves = np.concatenate([np.arange(n_leaves), random.integers(0, n_leaves, n_items - n_leaves)])
        taxonomy = {f"leaf{k}": f"node{k // 10}" for k in range(n_leaves)}
        model = TaxonomyCRF(taxonomy=taxonomy, l1=0, l2=1.0, n_threads=1, **settings)
        return model.fit(x, [f"leaf{k}" for k in leaves]).result_

    train(100, 50, 0.1, 20)
    unit = 1 if sys.platform == "darwin" else 1024
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e6
    report(train(2000, 20_000, 0.001, 100, tol=1e-6), before=before)


def measured(what):
    """Return what a training in a process of its own reports."""
    here = Path(__file__).parent  # spelled out: PYTHONSAFEPATH keeps the current folder off the path
    folders = [str(here), str(here.parent / "references")]
    train = f"import sys; sys.path[:0] = {folders!r}; import test_memory; test_memory.train_{what}()"
    command = [sys.executable, "-c", BETWEEN, train]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_vectors_of_all_weights():
    """Without zeros a training takes some 20 numbers for each weight; it was 40, most of them secant pairs."""
    found = measured("without_zeros")
    assert found["status"] == "CONVERGED"
    assert found["n_nonzero"] > 1 << 20
    assert 1e6 * (found["peak"] - found["before"]) <= 26 * 8 * found["n_nonzero"]


@pytest.mark.parametrize(("what", "most"), [("objective", 560), ("estimator", 700)])
def test_training_450_million_weights(what, most):
    found = measured(what)
    assert found["n_weights"] == N_FEATURES * N_NODES == 450_000_000
    assert found["status"] in ("CONVERGED", "ESTIMATED")
    assert found["gap"] <= 1e-2
    assert 1000 < found["n_nonzero"] < 10_000
    assert found.get("accuracy", 1.0) > 0.3
    assert found["peak"] < most
