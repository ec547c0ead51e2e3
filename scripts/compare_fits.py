#!/usr/bin/env python
"""Digests of the weights and predictions of every kind of training, to compare two versions of crfqn bit by bit.

    python scripts/compare_fits.py > /tmp/after
    PYTHONPATH=../before python scripts/compare_fits.py > /tmp/before
    diff /tmp/before /tmp/after

A line has the kind of training and three digests: of the result with its weights, of the predictions, and of the model
file without its result and trace. A change of the code that is to change no model leaves all lines as they are. The
data are random, small, and the same in every run; each training takes less than a second with compiled kernels.
"""

from __future__ import annotations

import hashlib
import pickle
import tempfile
import warnings
from collections.abc import Callable
from typing import Annotated, Any

import numpy as np
import scipy.sparse
import typer
from harness.options import command
from sklearn.base import clone

import crfqn
from crfqn import (
    CalibratedLeastSquares,
    ChainCRF,
    GeneralizedLeastSquares,
    MulticlassClassifier,
    MulticlassCRF,
    MulticlassSVC,
    MultilabelRanker,
    StagewiseRegression,
    TaxonomyCRF,
    crf_path,
)
from crfqn.compat import CRF
from crfqn.data.model_file import read_model
from crfqn.regularization_path import Grid, LocalGrid

N_ITEMS, N_LABELS, N_FEATURES = 90, 4, 24
PREDICTIONS = ("predict", "predict_proba", "decision_function", "predict_sets")
app = command()
draw = np.random.default_rng(7)

# Sequences of feature names, and their labels, which the names and the label before suggest.
LENGTHS = draw.integers(1, 9, N_ITEMS)
LABELS = [draw.integers(0, N_LABELS, n).tolist() for n in LENGTHS]
WORDS = [[[f"w{7 * k + draw.integers(9)}", f"v{draw.integers(30)}"] for k in y] for y in LABELS]
TAGS = [[("O", "B-A", "I-A", "B-B")[k] for k in y] for y in LABELS]
RULED = [["I-A" if k == "I-A" and t and y[t - 1] in ("B-A", "I-A") else "B-A" if k == "I-A" else k
          for t, k in enumerate(y)] for y in TAGS]  # fmt: skip
PARTIAL = [[None if draw.random() < 0.2 else {k, "O"} if draw.random() < 0.2 else k for k in y] for y in TAGS]
TOKENS = [[(f"w{word[0]}", f"p{k % 3}") for word, k in zip(*item, strict=True)]
          for item in zip(WORDS, LABELS, strict=True)]  # fmt: skip
BLOCK = [draw.normal(size=(n, 3)) for n in LENGTHS]
ITEM_WEIGHTS = draw.uniform(0.5, 2.0, N_ITEMS)
POSITION_WEIGHTS = [draw.uniform(0.5, 2.0, n) for n in LENGTHS]

# Items of which each has a label, in numbers, dense and sparse, and with several labels.
CLASSES = draw.integers(0, N_LABELS, N_ITEMS)
DENSE = draw.normal(size=(N_ITEMS, N_FEATURES)) + 2.0 * np.eye(N_LABELS, N_FEATURES)[CLASSES]
SPARSE = scipy.sparse.csr_array(DENSE * (np.abs(DENSE) > 0.9))
NAMES = np.array(["a/b", "a/c", "d", "e/f"])[CLASSES]
KNOWN = sorted({*NAMES.tolist()})
SOME_ZERO = np.where(ITEM_WEIGHTS < 0.7, 0, ITEM_WEIGHTS)
SETS = [tuple({int(k), int(draw.integers(N_LABELS))}) for k in CLASSES]


def in_batches(model: Any, X: Any, y: Any, **first: Any) -> Any:
    """Learn three batches."""
    for begin in range(0, N_ITEMS, 30):
        model.partial_fit(X[begin : begin + 30], y[begin : begin + 30], **(first if begin == 0 else {}))
    return model


def on_disk(model: Any, X: Any, y: Any, **options: Any) -> Any:
    """Train on blocks in a folder."""
    with tempfile.TemporaryDirectory() as folder:
        batches = [(X[:40], y[:40]), (X[40:], y[40:])]
        return model.fit(crfqn.Blocks.write(f"{folder}/blocks", batches, n_positions=40, **options))


def on_workers(**parameters: Any) -> Any:
    """Train on two shards of a Dask cluster in this process."""
    from distributed import Client, LocalCluster

    options: Any = {"n_workers": 2, "threads_per_worker": 1, "processes": False, "dashboard_address": None}
    with LocalCluster(silence_logs=50, **options) as cluster, Client(cluster) as client:
        reads = [lambda k=k: (WORDS[k::3], TAGS[k::3]) for k in range(3)]
        return chain(dask_client=client, **parameters).fit(crfqn.Shards(reads)).set_params(dask_client=None)


def loaded(model: Any) -> Any:
    """Return a model written to a file and read again."""
    with tempfile.TemporaryDirectory() as folder:
        model.save(f"{folder}/m", extra={"note": 1})
        return crfqn.load(f"{folder}/m")


def continued(model: Any) -> Any:
    """Train with checkpoints, be stopped after four iterations, and go on."""
    with tempfile.TemporaryDirectory() as folder:
        model.set_params(checkpoint=f"{folder}/c", checkpoint_every=1)
        clone(model).set_params(max_iter=4).fit(WORDS, TAGS)
        return model.fit(WORDS, TAGS).set_params(checkpoint=None)


def templates() -> Any:
    """Return token columns with features of templates, bigram features among them."""
    return crfqn.Templates("U0:%x[0,0]\nU1:%x[-1,0]/%x[0,1]\nB\nB0:%x[0,1]\n").fit_transform(TOKENS)


def chain(**parameters: Any) -> ChainCRF:
    return ChainCRF(n_threads=1, **parameters)


def hybrid(X: Any, block: Any) -> Any:
    return crfqn.Features(block, X)


HELD_OUT = WORDS[60:], TAGS[60:]
Kinds = dict[str, tuple[Callable[[], Any], Any]]
CHAINS: Kinds = {
    "chain": (lambda: chain().fit(WORDS, TAGS), WORDS),
    "chain l1 and groups": (lambda: chain(l1=0.2, group_l1=0.3).fit(WORDS, TAGS), WORDS),
    "chain l2": (lambda: chain(l1=0, l2=1.0, solver="l-bfgs").fit(WORDS, TAGS), WORDS),
    "chain hinge": (lambda: chain(loss="hinge", l1=0, l2=1.0).fit(WORDS, TAGS), WORDS),
    "chain perceptron": (lambda: chain(solver="averaged-perceptron", max_iter=5).fit(WORDS, TAGS), WORDS),
    "chain factors": (lambda: chain(penalty_factors={"w3": 0.0, "v2": 2.0}).fit(WORDS, TAGS), WORDS),
    "chain observed": (
        lambda: chain(all_possible_states=False, all_possible_transitions=False).fit(WORDS, TAGS), WORDS),
    "chain min_count": (lambda: chain(min_count=12).fit(WORDS, TAGS), WORDS),
    "chain dense items": (lambda: chain().fit(BLOCK, TAGS), BLOCK),
    "chain hybrid": (lambda: chain().fit(hybrid(WORDS, BLOCK), TAGS), hybrid(WORDS, BLOCK)),
    "chain templates": (lambda: chain().fit(templates(), TAGS), templates()),
    "chain templates observed": (lambda: chain(all_possible_transitions=False).fit(templates(), TAGS), templates()),
    "chain rules": (lambda: chain(scheme="IOB2", once=["A"], enforce_rules_in="decoding").fit(WORDS, RULED), WORDS),
    "chain rules in training": (lambda: chain(scheme="IOB2").fit(WORDS, RULED), WORDS),
    "chain rules seen": (lambda: chain(transition_rules="seen", on_violation="drop").fit(WORDS, TAGS), WORDS),
    "chain partial labels": (lambda: chain().fit(WORDS, PARTIAL), WORDS),
    "chain item weights": (lambda: chain().fit(WORDS, TAGS, ITEM_WEIGHTS), WORDS),
    "chain position weights": (lambda: chain(class_weight="balanced").fit(WORDS, TAGS, POSITION_WEIGHTS), WORDS),
    "chain held-out items": (lambda: chain(patience=3).fit(WORDS[:60], TAGS[:60], validation=HELD_OUT), WORDS),
    "chain warm start": (lambda: chain(warm_start=True).fit(WORDS[:60], TAGS[:60]).fit(WORDS, TAGS), WORDS),
    "chain start": (lambda: chain().fit(WORDS, TAGS, start=chain().fit(*HELD_OUT)), WORDS),
    "chain batches": (lambda: in_batches(chain(), WORDS, TAGS), WORDS),
    "chain batches online": (
        lambda: in_batches(chain(solver="passive-aggressive"), WORDS, TAGS, classes=["B-A", "B-B", "I-A", "O"]), WORDS),
    "chain blocks": (lambda: on_disk(chain(), WORDS, TAGS), WORDS),
    "chain blocks rules": (lambda: on_disk(chain(scheme="IOB2"), WORDS, RULED), WORDS),
    "chain workers": (on_workers, WORDS),
    "chain workers observed": (lambda: on_workers(all_possible_states=False), WORDS),
    "chain loaded": (lambda: loaded(chain().fit(templates(), TAGS)), templates()),
    "chain pickled": (lambda: pickle.loads(pickle.dumps(chain().fit(WORDS, TAGS))), WORDS),
    "chain checkpoints": (lambda: continued(chain()), WORDS),
    "chain calibrated": (lambda: chain().fit(WORDS, TAGS).calibrate(*HELD_OUT), WORDS),
    "chain path": (lambda: crf_path(chain(), WORDS, TAGS, grid=Grid(4), validation=HELD_OUT).best_model, WORDS),
    "chain compat": (lambda: CRF(c1=0.1, min_freq=2).fit(WORDS, TAGS), WORDS),
}  # fmt: skip


def flat(**parameters: Any) -> MulticlassCRF:
    return MulticlassCRF(n_threads=1, **parameters)


def margins(**parameters: Any) -> MulticlassClassifier:
    return MulticlassClassifier(n_threads=1, **parameters)


def tree(**parameters: Any) -> TaxonomyCRF:
    return TaxonomyCRF(n_threads=1, **parameters)


ITEMS: Kinds = {
    "flat": (lambda: flat().fit(SPARSE, NAMES), SPARSE),
    "flat dense": (lambda: flat().fit(DENSE, NAMES), DENSE),
    "flat l2": (lambda: flat(penalty="l2", penalize_intercept=True).fit(DENSE, NAMES), DENSE),
    "flat no intercept": (lambda: flat(penalty="l1/l2", fit_intercept=False).fit(SPARSE, NAMES), SPARSE),
    "flat hybrid": (lambda: flat().fit(hybrid(SPARSE, DENSE[:, :5]), NAMES), hybrid(SPARSE, DENSE[:, :5])),
    "flat weights": (
        lambda: flat(class_weight="balanced").fit(SPARSE, NAMES, SOME_ZERO), SPARSE),
    "flat factors": (lambda: flat(penalty_factors=np.linspace(0, 2, N_FEATURES)).fit(SPARSE, NAMES), SPARSE),
    "flat groups": (
        lambda: flat(penalty="l1/l2", feature_groups=np.arange(N_FEATURES) // 3).fit(SPARSE, NAMES), SPARSE),
    "flat held-out items": (
        lambda: flat(scoring="f1").fit(SPARSE[:60], NAMES[:60], validation=(SPARSE[60:], NAMES[60:])), SPARSE),
    "flat start": (lambda: flat(warm_start=True).fit(SPARSE[:60], NAMES[:60]).fit(SPARSE, NAMES), SPARSE),
    "flat batches": (lambda: in_batches(flat(), SPARSE, NAMES), SPARSE),
    "flat batches online": (
        lambda: in_batches(flat(solver="averaged-perceptron"), SPARSE, NAMES, classes=KNOWN), SPARSE),
    "flat blocks": (lambda: on_disk(flat(), SPARSE, NAMES), SPARSE),
    "flat loaded": (lambda: loaded(flat().fit(SPARSE, NAMES)), SPARSE),
    "flat pickled": (lambda: pickle.loads(pickle.dumps(flat().fit(SPARSE, NAMES).calibrate(temperature=2.0))), SPARSE),
    "flat path": (lambda: crf_path(flat(), SPARSE, NAMES, grid=Grid(4), cv=2).best_model, SPARSE),
    "flat around": (lambda: crf_path(flat(), SPARSE, NAMES, grid=LocalGrid(3), cv=2).best_model, SPARSE),
    "squared hinge": (lambda: margins().fit(SPARSE, NAMES), SPARSE),
    "hinge": (lambda: margins(loss="hinge", penalty="l2", l2=1.0).fit(SPARSE, NAMES), SPARSE),
    "hinge batches": (
        lambda: in_batches(margins(loss="hinge", penalty="l2", l2=1.0), SPARSE, NAMES, classes=KNOWN), SPARSE),
    "margin": (lambda: margins(loss="logistic", margin=1.0).fit(SPARSE, NAMES), SPARSE),
    "bounded loss": (
        lambda: margins(loss="hinge", penalty="l1/l2", loss_bound=20.0, tol=0.1, max_iter=60).fit(DENSE, NAMES), DENSE),
    "taxonomy": (lambda: tree().fit(SPARSE, NAMES), SPARSE),
    "taxonomy nodes": (lambda: tree(labels="nodes", fit_intercept=True, group_l1=0.1).fit(SPARSE, NAMES), SPARSE),
    "taxonomy start": (lambda: tree().fit(SPARSE, NAMES, start=flat(fit_intercept=False).fit(SPARSE, NAMES)), SPARSE),
    "taxonomy rows": (lambda: tree().fit(SPARSE, [tuple(name.split("/")) for name in NAMES]), SPARSE),
    "taxonomy hinge": (lambda: tree(loss="hinge", l1=0, l2=1.0).fit(SPARSE, NAMES), SPARSE),
    "taxonomy loaded": (lambda: loaded(tree(taxonomy=["a/b", "a/c", "d", "e/f", "e/g"]).fit(SPARSE, NAMES)), SPARSE),
    "taxonomy batches": (
        lambda: in_batches(tree(solver="passive-aggressive"), SPARSE, NAMES, classes=KNOWN), SPARSE),
    "ranker": (lambda: MultilabelRanker(n_threads=1).fit(SPARSE, SETS), SPARSE),
    "ranker by label": (lambda: MultilabelRanker(n_threads=1, threshold="label", cv=3).fit(SPARSE, SETS), SPARSE),
    "ranker loaded": (lambda: loaded(MultilabelRanker(n_threads=1, cv=2).fit(SPARSE, SETS)), SPARSE),
    "ranker of one label": (lambda: MultilabelRanker(n_threads=1).fit(SPARSE, NAMES), SPARSE),
    "ranker path": (
        lambda: crf_path(MultilabelRanker(n_threads=1), SPARSE, SETS, grid=Grid(3), cv=2).best_model, SPARSE),
    "least squares": (lambda: loaded(GeneralizedLeastSquares(n_threads=1).fit(DENSE, NAMES)), DENSE),
    "least squares sets": (lambda: GeneralizedLeastSquares(n_threads=1, link="identity").fit(DENSE, SETS), DENSE),
    "calibrated": (lambda: loaded(CalibratedLeastSquares(n_threads=1, random_state=0).fit(DENSE, NAMES)), DENSE),
    "stagewise": (lambda: loaded(StagewiseRegression(n_threads=1, random_state=0).fit(DENSE, NAMES)), DENSE),
    "svc": (lambda: loaded(MulticlassSVC().fit(DENSE, NAMES)), DENSE),
}  # fmt: skip


def bits(value: Any) -> bytes:
    """Return a value as bytes that are the same only if it is."""
    if scipy.sparse.issparse(value):
        value = value.tocsr()
        return b"".join(map(bits, (value.shape, value.indptr, value.indices, value.data)))
    if isinstance(value, np.ndarray) and value.dtype != object:
        return f"{value.dtype}{value.shape}".encode() + value.tobytes()
    if isinstance(value, (list, tuple, np.ndarray)):
        return b"[" + b",".join(map(bits, value)) + b"]"
    if isinstance(value, dict):
        return bits([*value.items()])
    return repr(value).encode()


def digest(value: Any) -> str:
    """Return twelve digits of a value's bits."""
    return hashlib.sha256(bits(value)).hexdigest()[:12]


def stored(model: Any) -> Any:
    """Return what a model's file holds, without the result and trace, which depend on the time that a run takes."""
    with tempfile.TemporaryDirectory() as folder:
        model.save(f"{folder}/m")
        file = read_model(f"{folder}/m")
    arrays = sorted((name, value) for name, value in file.arrays.items() if name != "trace")
    others = sorted((name, value) for name, value in file.metadata.items() if name != "result")
    return arrays, sorted(file.strings.items()), others


@app.command()
def main(
    kinds: Annotated[list[str] | None, typer.Argument(help="Words of the kinds to train.")] = None,
) -> None:
    """Train, and print a line for each kind."""
    for name, (train, X) in (CHAINS | ITEMS).items():
        if kinds and not any(kind in name for kind in kinds):
            continue
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            model = train()
        named = [str(each.message) for each in caught if not issubclass(each.category, ResourceWarning)]
        model = model.model_ if isinstance(model, CRF) else model
        result = getattr(model, "result_", None)
        numbers = result and (
            result.coords, result.weights, result.value, result.gap, result.n_iter, result.status.name
        )  # fmt: skip
        found = [getattr(model, method)(X) for method in PREDICTIONS if hasattr(model, method)]
        print(f"{name:26} {digest([numbers, named])} {digest(found)} {digest(stored(model))}", flush=True)


if __name__ == "__main__":
    app()
