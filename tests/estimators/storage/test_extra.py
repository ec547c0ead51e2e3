"""What a user keeps with a model changes no prediction; what `crfqn train` keeps of the features is apart from it."""

from __future__ import annotations

import json

import numpy as np
import pytest
from command_line import run_here

import crfqn
from crfqn import Tagger, interchange
from crfqn.estimators.storage import ESTIMATORS_BY_KIND

COLUMNS = np.random.default_rng(3).random((24, 2)).round(2)
LABELS = np.where(COLUMNS[:, 0] > 0.5, "a", "b")
SEQUENCES = [[{"w": "x"}, {"w": "y"}], [{"w": "y"}]] * 4
TABLE = {"n_columns": 2, "table": [["p", 0, 100.0, 3.0], ["q", 1, 5.0, 0.1]]}
WORDS = {"n_columns": 2, "columns": None, "words": [[1.0, "x y"]]}
EXTRAS = {
    "none": None,
    "table": {"recipe": {"features": {"kind": "table"}}, "features": TABLE, "data_fingerprint": "f00d"},
    "half a table": {"recipe": {"features": {"kind": "table"}}},
    "text": {
        "recipe": {"features": {"kind": "text", "weighting": "count", "norm": "l2", "sublinear_tf": False}},
        "features": WORDS,
        "data_fingerprint": "f00d",
    },
    "no recipe": {"recipe": "bread", "recipe_source": 7, "n_features": "many", "n_weights": -1, "tokens": []},
    "paths": {"regularization_path": "through the woods", "features": None, "templates": 3, "training": {}},
}


def fitted(kind):
    """A small model of a kind, and items for it."""
    if kind == "chain-crf":
        labels = [[{"x": "a", "y": "b"}[position["w"]] for position in item] for item in SEQUENCES]
        return crfqn.ChainCRF(l1=0.1).fit(SEQUENCES, labels), SEQUENCES
    model = getattr(crfqn, ESTIMATORS_BY_KIND[kind])()
    if kind == "taxonomy-crf":
        return model.fit(COLUMNS, np.char.add("top/", LABELS)), COLUMNS
    return model.fit(COLUMNS, LABELS), COLUMNS


def answers(model, X):
    """All that a model says of items."""
    verbs = ("predict", "predict_proba", "predict_marginals", "decision_function", "predict_sets")
    return [
        np.concatenate([np.ravel(part) for part in getattr(model, verb)(X)])
        for verb in verbs
        if hasattr(model, verb)
    ]


@pytest.mark.parametrize("kind", sorted(ESTIMATORS_BY_KIND))
def test_no_extra_changes_a_prediction(kind, path):
    model, X = fitted(kind)
    expected = answers(model, X)
    for extra in EXTRAS.values():
        model.save(path, extra=extra)
        loaded = crfqn.load(path)
        loaded.save(path, extra=loaded.extra_)
        again = crfqn.load(path)
        assert again.extra_ == loaded.extra_ == (extra or {})
        for one, other in zip(answers(again, X), expected, strict=True):
            np.testing.assert_array_equal(one, other)
        interchange.write(again, path.with_suffix(".json"))
        of_json = interchange.read(path.with_suffix(".json"))
        assert of_json.extra_ == again.extra_
        np.testing.assert_array_equal(answers(of_json, X)[0], expected[0])
        if kind in ("chain-crf", "multiclass-crf", "multiclass-classifier", "taxonomy-crf"):
            tagger = Tagger(path)
            np.testing.assert_array_equal(np.concatenate([*map(np.ravel, tagger.tag_items(X))]), expected[0])


@pytest.mark.parametrize("extra", EXTRAS.values(), ids=[*EXTRAS])
def test_commands_do_not_read_it(extra, tmp_path, monkeypatch):
    fitted("chain-crf")[0].save(tmp_path / "m", extra=extra)
    for command, words in ((("inspect", "m"), "n_features"), (("predict", "m"), None)):
        run = run_here(monkeypatch, tmp_path, *command, *["--json"] * (words is not None), input="\tw=x\n")
        assert run.returncode == 0, run.stderr
        if words is not None:
            assert json.loads(run.stdout)["recipe"] is None


def test_another_training_forgets_what_the_file_told(path):
    model, _ = fitted("multiclass-crf")
    model.save(path, extra={"of": "the first"})
    model = crfqn.load(path)
    assert model.extra_ == {"of": "the first"}
    model.fit(COLUMNS, LABELS)
    expected = model.predict_proba(COLUMNS)
    model.save(path)
    np.testing.assert_array_equal(crfqn.load(path).predict_proba(COLUMNS), expected)
    assert not hasattr(model, "extra_")
