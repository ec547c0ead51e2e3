"""`ChainCRF(dask_client=...)`: the vocabulary and the model of all shards, read on the workers."""

from __future__ import annotations

import copy
import pickle
import time
from threading import Event, Thread, Timer

import dask.bag
import numpy as np
import pytest
from distributed import Client
from sharded_problems import blocked, connected, parts_of
from sklearn.base import clone
from typer.testing import CliRunner

import crfqn
from crfqn import ChainCRF, Shards, Templates
from crfqn.cli.app import app
from crfqn.distributed import distributed_objective
from crfqn.distributed.workers import WorkersLostError
from crfqn.errors import InputError
from crfqn.estimators.automatic import chosen_strengths
from crfqn.readers import read

WORDS = ["the", "dog", "a", "cat", "sees", "hears", "bird", "old"]
TAGS = dict(zip(WORDS, ["D", "N", "D", "N", "V", "V", "N", "A"], strict=True))
STRICT = {"l1": 0.5, "l2": 0.1, "tol": 1e-9, "stop": "certificate"}


def sentences(seed, n):
    random = np.random.default_rng(seed)
    return [list(random.choice(WORDS, random.integers(1, 6))) for _ in range(n)]


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Three CoNLL files, the second one empty."""
    folder = tmp_path_factory.mktemp("shards")
    for number, n in enumerate((30, 0, 20)):
        lines = ["\n".join(f"{word} {TAGS[word]}" for word in item) for item in sentences(number, n)]
        (folder / f"part-{number}.conll").write_text("\n\n".join(lines) + "\n" * bool(lines))
    return sorted(folder.iterdir())


@pytest.fixture(scope="module")
def data(files):
    parts = [read(path) for path in files if path.stat().st_size]
    X = [[dict(position) for position in item] for part in parts for item in part.inputs]
    return X, [labels for part in parts for labels in part.labels]


def same_model(found, expected, X):
    assert found.classes_.tolist() == expected.classes_.tolist()
    assert found.feature_names_in_.tolist() == expected.feature_names_in_.tolist()
    np.testing.assert_allclose(found.coef_.toarray(), expected.coef_.toarray(), atol=1e-5)
    np.testing.assert_allclose(
        found.transition_coef_.toarray(), expected.transition_coef_.toarray(), atol=1e-5
    )
    assert found.predict(X).tolist() == expected.predict(X).tolist()


def test_the_command_trains_on_workers_of_its_own(files, data, tmp_path):
    options = ["--l1", "0.5", "--l2", "0.1", "--tol", "1e-9", "--stop", "certificate", "--output"]
    models = []
    for name, where in (("here", []), ("workers", ["--workers", "1"])):
        result = CliRunner().invoke(
            app, ["train", "--data", str(files[0]), *where, *options, str(tmp_path / name)]
        )
        assert result.exit_code == 0, result.output
        models.append(crfqn.load(tmp_path / name))
    here, on_workers = models
    assert sorted(on_workers.feature_names_in_) == sorted(here.feature_names_in_)
    assert on_workers.coef_.nnz == here.coef_.nnz > 0
    assert on_workers.predict(data[0]).tolist() == here.predict(data[0]).tolist()


@pytest.mark.parametrize("settings", [{}, {"all_possible_states": False, "all_possible_transitions": False}])
def test_items_without_positions(threads, data, settings):
    """Among others and as a whole shard; and shards without any feature."""
    X, y = data
    parts = [([[], *X[:20]], [[], *y[:20]]), ([[], []], [[], []]), ([*X[20:], []], [*y[20:], []])]
    found = ChainCRF(**STRICT, **settings, dask_client=threads).fit(
        Shards([lambda part=part: part for part in parts])
    )
    same_model(found, ChainCRF(**STRICT, **settings).fit(X, y), X)
    assert found.predict([[]]).tolist() == [[]]
    bare = [[{} for _ in item] for item in X]
    parts = [(bare[:20], y[:20]), (bare[20:], y[20:])]
    found = ChainCRF(**STRICT, **settings, dask_client=threads).fit(
        Shards([lambda part=part: part for part in parts])
    )
    same_model(found, ChainCRF(**STRICT, **settings).fit(bare, y), bare)


@pytest.mark.parametrize("settings", [{}, {"all_possible_states": False, "all_possible_transitions": False}])
def test_files_make_the_model_of_all_items(threads, files, data, settings, tmp_path):
    found = ChainCRF(**STRICT, **settings, dask_client=threads).fit([str(path) for path in files])
    expected = ChainCRF(**STRICT, **settings).fit(*data)
    same_model(found, expected, data[0])
    assert found.result_.value == pytest.approx(expected.result_.value, rel=1e-8)
    found.save(tmp_path / "model.crfqn")
    assert (
        crfqn.load(tmp_path / "model.crfqn").predict(data[0]).tolist() == expected.predict(data[0]).tolist()
    )


def test_a_bag_makes_the_same_model_as_files(threads, files, data):
    bag = dask.bag.from_sequence(list(zip(*data, strict=True)), npartitions=3)
    expected = ChainCRF(**STRICT).fit(*data)
    same_model(ChainCRF(**STRICT, dask_client=threads).fit(bag), expected, data[0])
    with pytest.raises(InputError, match="expected a bag that is not persisted"):
        ChainCRF(dask_client=threads).fit(bag.persist())


def test_automatic_strengths_are_those_of_all_items(threads, files, data):
    found, expected = ChainCRF(dask_client=threads).fit(files), ChainCRF().fit(*data)
    assert (found.l1_, found.l2_) == pytest.approx((expected.l1_, expected.l2_), rel=1e-12)
    shared, here = distributed_objective(threads, parts_of("flat")), blocked("flat")
    intercepts = np.arange(here.n_features - 1, here.n_node_coords, here.n_features)
    strengths = [chosen_strengths({"l1": "auto"}, each, intercepts)["l1"] for each in (shared, here)]
    assert strengths[0] == strengths[1]


def test_templates_count_over_all_shards(threads, files, data):
    templates = Templates(windows="w[-1] w[0] w[0]|w[1]", min_count=3)
    found = ChainCRF(**STRICT, dask_client=threads).fit(Shards(files, templates=templates))
    encoded = templates.fit_transform(data[0])
    expected = ChainCRF(**STRICT).fit(encoded, data[1])
    assert sorted(found.feature_names_in_.tolist()) == sorted(expected.feature_names_in_.tolist())
    assert found.predict(data[0]).tolist() == expected.predict(data[0]).tolist()
    assert found.result_.value == pytest.approx(expected.result_.value, rel=1e-8)


def labelled_arrays():
    random = np.random.default_rng(3)
    return [random.random((4, 3)) for _ in range(6)], [[1, 2, 1, 3]] * 6, [1.0, 0.0, 2.0, 1.0, 1.0, 1.0]


def test_functions_read_whatever_they_like(threads):
    found = ChainCRF(**STRICT, dask_client=threads).fit([labelled_arrays, labelled_arrays])
    X, y, weights = labelled_arrays()
    expected = ChainCRF(**STRICT).fit(X + X, y + y, weights * 2)
    np.testing.assert_allclose(found.coef_.toarray(), expected.coef_.toarray(), atol=1e-5)


def test_copies_of_a_model(threads):
    model = ChainCRF(dask_client=threads, l1=2.0)
    assert clone(model).dask_client is threads
    assert model.get_params()["dask_client"] is threads
    for made in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert (made.dask_client, made.l1) == (threads.scheduler.address, 2.0)
    assert "dask_client" not in ChainCRF().stored_parameters()


@pytest.mark.parametrize(
    ("settings", "given", "message"),
    [
        ({}, [[["a"]]], "expected a list of paths or of functions, a Dask bag, or Shards"),
        ({"on_violation": "drop"}, [labelled_arrays], "on_violation: with a client expected 'error'"),
        (
            {"transition_rules": "seen"},
            [labelled_arrays],
            "transition_rules: with a client expected no rules of seen transitions",
        ),
        ({"scheme": "IOB2"}, [labelled_arrays], "label"),
    ],
)
def test_what_takes_all_data_in_one_place_is_refused(threads, settings, given, message):
    with pytest.raises(InputError, match=message):
        ChainCRF(dask_client=threads, **settings).fit(given)


def test_labels_come_with_the_shards(threads, files):
    with pytest.raises(InputError, match="labels and weights are those of the shards"):
        ChainCRF(dask_client=threads).fit(files, [["D"]])


def test_a_missing_file_is_named(threads, tmp_path):
    with pytest.raises(crfqn.errors.DataUnavailableError, match=r"nowhere\.conll.*on worker inproc:"):
        ChainCRF(dask_client=threads).fit([tmp_path / "nowhere.conll"])


BEGUN = Event()  # workers that are threads share it


def read_slowly():
    BEGUN.set()
    time.sleep(0.2)
    return labelled_arrays()


@pytest.mark.parametrize("closed", ["client", "cluster"])
def test_a_client_that_is_closed_while_shards_are_read_is_told(closed):
    BEGUN.clear()
    with connected(n_workers=1, processes=False) as cluster, Client(cluster) as client:

        def close_one():
            BEGUN.wait(60)
            {"client": client, "cluster": cluster}[closed].close()

        closing = Thread(target=close_one)
        closing.start()
        with pytest.raises(WorkersLostError, match=r"closed during the training: connect a new client"):
            ChainCRF(dask_client=client).fit([read_slowly] * 50)
        closing.join()


def test_shards_are_read_when_a_worker_comes(threads):
    expected = ChainCRF(**STRICT, dask_client=threads).fit([labelled_arrays, labelled_arrays])
    with connected(n_workers=0, processes=False) as cluster, Client(cluster) as client:
        with pytest.raises(WorkersLostError, match=r"no worker is left \(0 lost\).* within 0.5 seconds"):
            ChainCRF(dask_client=client, worker_timeout=0.5).fit([labelled_arrays])
        Timer(1.5, cluster.scale, [1]).start()
        found = ChainCRF(**STRICT, dask_client=client, worker_timeout=300).fit(
            [labelled_arrays, labelled_arrays]
        )
    np.testing.assert_array_equal(found.coef_.toarray(), expected.coef_.toarray())


@pytest.mark.parametrize("wait", [-1, "long", None, float("nan")])
def test_a_wait_that_is_none_is_refused(threads, wait):
    with pytest.raises(InputError, match=f"worker_timeout: expected a number >= 0, got {wait!r}"):
        ChainCRF(dask_client=threads, worker_timeout=wait).fit([labelled_arrays])


def test_no_scheduler_is_an_error(monkeypatch):
    monkeypatch.setattr("crfqn.distributed.workers.CONNECT_TIMEOUT", 0.5)
    for address in ("tcp://127.0.0.1:9", "nowhere"):
        with pytest.raises(InputError, match=f"dask_client: there is no scheduler at '{address}'"):
            ChainCRF(dask_client=address).fit([labelled_arrays])


@pytest.mark.parametrize(
    "settings",
    [{"solver": "sgd", "l1": 0.1}, {"solver": "feature-bcd", "l1": 0.1}, {"loss": "hinge", "l2": 0.1}],
)
def test_methods_over_single_items_are_refused_by_name(threads, files, settings):
    with pytest.raises(InputError, match="is kept item by item, and the items are on workers"):
        ChainCRF(**{"l1": 0.0} | settings, dask_client=threads).fit(files)
