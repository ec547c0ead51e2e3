"""Model files of any kind: in another process, and with content that does not fit together."""

from __future__ import annotations

import random
import subprocess
import sys
from contextlib import suppress

import numpy as np
import pytest
from command_line import run_here
from model_mutations import write_mutation
from stored_items import ITEM_MODELS, ROWS, trained
from stored_models import named, rewriter

import crfqn
from crfqn.data.model_file import read_model
from crfqn.errors import ModelFileError
from crfqn.report.facts import parameters


@pytest.fixture
def model_of(named_model):
    """A fitted model of a kind: "chain", or the name of one of items."""
    return lambda kind: named_model if kind == "chain" else trained(kind)


def test_another_process_predicts_the_same(model_of, tmp_path):
    chain, tree = model_of("chain"), model_of("path rows")
    chain.save(tmp_path / "chain")
    tree.save(tmp_path / "tree")
    script = (
        "import sys, crfqn, numpy as np\n"
        "chain, tree = map(crfqn.load, sys.argv[1:])\n"
        "item = [[f'é{j}'] for j in range(8)]\n"
        "print(chain.predict_marginals([item])[0].tobytes().hex(), tree.predict_nodes(np.eye(6)).tobytes().hex())"
    )
    command = [sys.executable, "-c", script, tmp_path / "chain", tmp_path / "tree"]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    item = [[f"é{j}"] for j in range(8)]
    expected = chain.predict_marginals([item])[0], tree.predict_nodes(np.eye(6))
    assert run.stdout.split() == [numbers.tobytes().hex() for numbers in expected]


class TestContentThatDoesNotFit:
    """Files with a right checksum whose content no `save` would write: what all kinds share."""

    @pytest.fixture(params=["chain", "flat str", "mixed names"])
    def rewrite(self, request, model_of, path):
        return rewriter(model_of(request.param), path)

    @pytest.mark.parametrize("name", ["node_state", "node_feature", "node_weight", "trace"])
    def test_a_missing_array(self, rewrite, path, name):
        rewrite(arrays={name: None})
        with pytest.raises(ModelFileError, match=rf"model\.crfqn: the model has no array '{name}'"):
            crfqn.load(path)

    @pytest.mark.parametrize(("name", "change"), [
        ("node_state", lambda a: a + 50),
        ("node_feature", lambda a: a.astype(np.int64) + 10**12),
        ("node_weight", lambda a: a * np.nan),
    ])  # fmt: skip
    def test_a_wrong_array(self, rewrite, path, name, change):
        rewrite(arrays={name: change(read_model(path).arrays[name])})
        with pytest.raises(ModelFileError, match=rf"model\.crfqn: .*{name}"):
            crfqn.load(path)

    @pytest.mark.parametrize("metadata", [
        {"settings": None},
        {"settings": {}},
        {"settings": 5},
        {"n_classes": 0},
        {"n_classes": -1},
        {"n_classes": "many"},
        {"n_classes": 10**18},
        {"n_features": 0},
        {"n_features": 10**30},
        {"n_features": float("inf")},
        {"n_features": float("nan")},
        {"n_features": True},
        {"n_features": None},
        {"result": {}},
        {"result": {"status": "DONE"}},
        {"extra": 3},
        {"extra": None},
    ], ids=str)  # fmt: skip
    def test_wrong_metadata(self, rewrite, path, metadata):
        rewrite(**metadata)
        with pytest.raises(ModelFileError, match=r"model\.crfqn: "):
            crfqn.load(path)


@pytest.mark.parametrize(("kind", "name", "value", "message"), [
    ("chain", "tol", "much", r"expected 'auto' or a finite number >= 0, got 'much'"),
    ("chain", "l1", "x", r"expected 'auto' or a finite number >= 0, got 'x'"),
    ("chain", "l2", [1], r"expected 'auto' or a finite number >= 0, got \[1\]"),
    ("chain", "max_iter", 2.5, r"expected an integer >= 1, got 2\.5"),
    ("chain", "warm_start", 1, r"expected True or False, got 1"),
    ("chain", "scheme", 3, r"expected .* got 3"),
    ("chain", "stop", ["soon"], r"expected one of .*, got \['soon'\]"),
    ("flat str", "fit_intercept", None, r"expected True or False, got None"),
    ("flat str", "penalty", {"a": 1}, r"expected one of .*, got {'a': 1}"),
    ("star", "class_weight", 7, r"expected None, 'balanced' or a dict .*, got 7"),
    ("star", "separator", None, r"expected a separator of one or more characters, got None"),
    ("path rows", "l1", True, r"expected .*'auto' or a finite number >= 0, got True"),
    ("path rows", "max_seconds", "x", r"expected None or a number > 0, got 'x'"),
])  # fmt: skip
def test_settings_of_a_wrong_type_or_value(model_of, kind, name, value, message, path):
    rewrite = rewriter(model_of(kind), path)
    rewrite(settings=read_model(path).metadata["settings"] | {name: value})
    with pytest.raises(ModelFileError, match=rf"model\.crfqn: settings: ({name}: )?{message}"):
        crfqn.load(path)


def test_facts_of_a_wrong_type_are_not_shown(model_of, path, monkeypatch, tmp_path):
    model_of("flat str").save(path, {"n_features": "many", "data_fingerprint": [1], "regularization_path": 7})
    for command in (("inspect", path), ("inspect", path, "--json")):
        assert run_here(monkeypatch, tmp_path, *command).returncode == 0


@pytest.mark.parametrize("kind", ["chain", *ITEM_MODELS])
@pytest.mark.filterwarnings("ignore::crfqn.errors.UnknownFeaturesWarning")
def test_whatever_a_file_holds_it_is_a_model_or_refused(model_of, kind, path):
    """Mutations of the content: no other error than the documented one, and none but of the input in prediction."""
    model_of(kind).save(path)
    file, rng, n_loaded = read_model(path), random.Random(kind), 0
    for _ in range(150):
        write_mutation(path, file, rng)
        try:
            model = crfqn.load(path)
        except ModelFileError:
            continue
        n_loaded += 1
        with suppress(ValueError):  # numbers of features are looked at when they are used
            model.predict(named() if kind == "chain" else ROWS)
        assert all(fact.value for fact in parameters(model) if fact.name in ("tol", "l1", "max_iter"))
    assert 10 < n_loaded < 140
