"""What a user keeps with a model changes no prediction; what `crfqn train` keeps of the features is apart from it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from command_line import run_here

import crfqn
from crfqn import Tagger, interchange
from crfqn.data import model_file
from crfqn.data.model_file import read_model, write_model
from crfqn.estimators.storage import KINDS

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
    model = getattr(crfqn, KINDS[kind])()
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


@pytest.mark.parametrize("kind", sorted(KINDS))
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


OLDER = Path(__file__).with_name("older_table.model")  # of format 3: `crfqn train --data` of a table
CELLS = [{"price": 10, "city": "Wien"}, {"price": 55, "city": "Linz"}, {"price": 44.5, "city": "Graz"}]
# Of "good", by the code of then.
PROBABILITIES = [0.9993267991418212, 0.0007119827779393285, 0.9746420274580135]


class TestOlderFiles:
    def test_a_stored_one(self, path, tmp_path, monkeypatch):
        model = crfqn.load(OLDER)
        assert {"data_fingerprint", "features", "n_features", "recipe"} < set(model.extra_)
        model.save(path)
        interchange.write(model, path.with_suffix(".json"))
        for one in (model, crfqn.load(path), interchange.read(path.with_suffix(".json"))):
            np.testing.assert_allclose(one.predict_proba(CELLS)[:, 1], PROBABILITIES, rtol=1e-12)
        for name in (OLDER, path):
            found = [Tagger(name).marginals(cells)[1] for cells in CELLS]
            np.testing.assert_allclose(found, PROBABILITIES, rtol=1e-12)
            cells = "price,city\n10,Wien\n55,Linz\n44.5,Graz\n"
            run = run_here(monkeypatch, tmp_path, "predict", name, "--format", "csv", input=cells)
            assert run.stdout.split() == ["good", "bad", "good"]
        assert crfqn.load(path).extra_ == {}

    def test_what_a_user_kept_stays_theirs(self, path, monkeypatch):
        """Without the fingerprint that the command line wrote beside a recipe, a table of this name is the user's."""
        model, X = fitted("multiclass-crf")
        monkeypatch.setattr(model_file, "FORMAT_VERSION", 3)
        model.save(path, extra=EXTRAS["half a table"])
        np.testing.assert_array_equal(crfqn.load(path).predict_proba(X), model.predict_proba(X))

    @pytest.mark.parametrize(
        ("content", "new", "options"),
        [
            ("x A\ny B\n\ny B\n\n" * 4, "x\ny\n", ("--format", "conll")),
            ("x A\ny B\n\ny B\n\n" * 4, "x\ny\n", ("--format", "conll", "--templates", "w[0]")),
            ("a\txx yy\nb\tyy zz\n" * 4, "yy zz\nxx\n", ("--format", "text")),
            ("a\txx yy\nb\tyy zz\n" * 4, "yy zz\nxx\n", ("--format", "text", "--structure", "taxonomy")),
            ("1 1:2 2:1\n2 2:3\n" * 4, "0 1:1\n0 2:4\n", ("--format", "svmlight")),
        ],
    )  # fmt: skip
    def test_of_every_kind_of_features(self, tmp_path, monkeypatch, content, new, options):
        def run(*arguments, **others):
            done = run_here(monkeypatch, tmp_path, *arguments, **others)
            assert done.returncode == 0, done.stderr
            return done.stdout

        (tmp_path / "data").write_text(content)
        run("train", "--data", "data", "-o", "new.crfqn", "-q", "--l1", "0.1", "--threads", 1, *options)
        file = read_model(tmp_path / "new.crfqn")
        assert file.metadata["extra"] == {}
        file.metadata["extra"] = file.metadata.pop("training")
        with monkeypatch.context() as patch:
            patch.setattr(model_file, "FORMAT_VERSION", 3)
            write_model(tmp_path / "old.crfqn", file.kind, file.arrays, file.strings, file.metadata)
        for option in ("--marginals", "--json"):
            expected = run("predict", "new.crfqn", option, input=new)
            assert expected.strip()
            assert run("predict", "old.crfqn", option, input=new) == expected
        facts = [json.loads(run("inspect", f"{name}.crfqn", "--json")) for name in ("old", "new")]
        for fact in facts:
            del fact["path"], fact["bytes"]
        assert facts[0] == facts[1]
        assert crfqn.load(tmp_path / "old.crfqn").extra_ == file.metadata["extra"]


def test_another_training_forgets_what_the_file_told(path):
    model = crfqn.load(OLDER)
    model.fit(COLUMNS, LABELS)
    expected = model.predict_proba(COLUMNS)
    model.save(path)
    np.testing.assert_array_equal(crfqn.load(path).predict_proba(COLUMNS), expected)
    assert not hasattr(model, "extra_")
