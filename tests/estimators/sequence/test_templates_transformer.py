"""Templates as a transformer: in pipelines, in searches, in model files."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline

from crfqn import ChainCRF, Tagger, Templates, TokenColumns, load
from crfqn.errors import InputError, ModelFileError
from crfqn.metrics import chunk_scorer

PATTERNS = "U0:%x[0,0]\nU1:%x[-1,0]/%x[0,0]\nU2:%x[0,1]/%x[1,1]\nB\n"
X = [
    [("the", "DT"), ("dog", "NN"), ("barks", "VB")],
    [("a", "DT"), ("cat", "NN"), ("sleeps", "VB")],
    [("it", "PR"), ("barks", "VB")],
] * 2  # fmt: skip
Y = [["B-NP", "I-NP", "O"], ["B-NP", "I-NP", "O"], ["B-NP", "O"]] * 2
NEW = [[("the", "DT"), ("cat", "NN"), ("runs", "VB")], [("unseen", "XX")], [("a/b", "DT")]]


# Some of the new items have nothing that was seen before.
pytestmark = pytest.mark.filterwarnings("ignore::crfqn.errors.UnknownFeaturesWarning")


def caps(token):
    return ["cap"] if token["0"][0].isupper() else []


def lists(paths):
    return [list(map(str, path)) for path in paths]


@pytest.fixture(scope="module")
def model():
    return make_pipeline(Templates(PATTERNS), ChainCRF(l1=0.05)).fit(X, Y)


def test_a_pipeline_learns_from_columns(model):
    assert lists(model.predict(X)) == Y
    assert lists(model.predict(NEW))[0] == ["B-NP", "I-NP", "O"]
    assert model[0].has_transitions_ and model[0].n_features_ == model[1].n_features_in_  # noqa: PT018
    assert model[1].vocabulary is model[0].vocabulary_


@pytest.mark.parametrize("form", [
    lambda items: TokenColumns.from_items(items),
    lambda items: [[{"0": w, "1": p} for w, p in item] for item in items],
    lambda items: [[[w, p] for w, p in item] for item in items],
])  # fmt: skip
def test_forms_of_columns(model, form):
    assert lists(model.predict(form(NEW))) == lists(model.predict(NEW))


@pytest.mark.parametrize("settings", [{}, {"n_hashed": 4096}, {"windows": "0[0] 1[-1]|1[0]", "shapes": "0"}])
def test_a_model_file_needs_columns_only(tmp_path, settings):
    fitted = make_pipeline(Templates(PATTERNS, **settings), ChainCRF(l1=0.05)).fit(X, Y)
    fitted[1].save(tmp_path / "model.crfqn")
    loaded = load(tmp_path / "model.crfqn")
    columns = X + NEW
    assert lists(loaded.predict(columns)) == lists(fitted.predict(columns))
    for one, other in zip(
        loaded.predict_marginals(columns), fitted[1].predict_marginals(columns), strict=True
    ):
        np.testing.assert_allclose(one, other, atol=1e-12)
    assert hasattr(loaded, "feature_names_in_") == ("n_hashed" not in settings)
    loaded.save(tmp_path / "again.crfqn")
    assert lists(load(tmp_path / "again.crfqn").predict(columns)) == lists(fitted.predict(columns))
    # What the pipeline's templates make of columns is matched by name.
    assert lists(loaded.predict(fitted[0].transform(columns))) == lists(fitted.predict(columns))


def test_a_loaded_model_goes_on_with_training(tmp_path, model):
    model[1].save(tmp_path / "model.crfqn")
    loaded = load(tmp_path / "model.crfqn")
    again = ChainCRF(l1=0.05).fit(model[0].transform(X), Y, start=loaded)
    assert again.result_.n_iter <= model[1].result_.n_iter
    assert lists(again.predict(X)) == Y


def test_damaged_templates_in_a_file(tmp_path, model, monkeypatch):
    monkeypatch.setattr(type(model[1].vocabulary), "stored_source", lambda self: {"patterns": 3})
    model[1].save(tmp_path / "model.crfqn")
    with pytest.raises(
        ModelFileError, match="templates: expected a table of abbreviations, columns, dialect"
    ):
        load(tmp_path / "model.crfqn")


def test_functions(tmp_path):
    named = [[("Rex", "NN"), ("barks", "VB")], [("barks", "VB"), ("Tom", "NN")]]
    templates = Templates(PATTERNS, functions=[caps])
    crf = ChainCRF(l1=0.05).fit(templates.fit_transform(named), [["N", "V"], ["V", "N"]])
    assert "caps=cap" in templates.get_feature_names_out()
    assert lists(crf.predict([[("Mia", "ZZ")]])) == [["N"]]
    with pytest.raises(InputError, match=r"keeps no code, and features come from functions \(caps\)"):
        crf.save(tmp_path / "model.crfqn")
    again = pickle.loads(pickle.dumps(crf))
    assert lists(again.predict(named)) == lists(crf.predict(named))
    hashed = Templates(functions=[caps], n_hashed=64).fit_transform(named).matrix
    assert hashed.sum(axis=1).tolist() == [1, 0, 0, 1]


@pytest.mark.parametrize(("functions", "message"), [
    ([lambda token: "text"], "expected a list of texts, got 'text'"),
    ([lambda token: [1]], "expected texts, got 1"),
    ([3], "functions: expected functions"),
    ([caps, caps], "'caps=' and 'caps=' could have one name"),
])  # fmt: skip
def test_wrong_functions(functions, message):
    with pytest.raises(InputError, match=message):
        Templates(PATTERNS, functions=functions).fit(X)


def test_rare_features(model):
    few = Templates(PATTERNS, min_count=3).fit(X)
    assert {*few.get_feature_names_out()} < {*model[0].get_feature_names_out()}
    assert "U2:DT/NN" in few.get_feature_names_out()


def test_search_and_clone():
    search = GridSearchCV(
        make_pipeline(Templates(PATTERNS), ChainCRF(l1=0.1)),
        {"templates__min_count": [1, 2]},
        cv=2,
        scoring=chunk_scorer(),
    )
    search.fit(X, Y)
    assert search.best_score_ == 1
    assert clone(Templates(PATTERNS, min_count=3)).get_params()["min_count"] == 3


def test_a_pattern_file(tmp_path):
    (tmp_path / "template").write_text(PATTERNS)
    assert Templates(tmp_path / "template").fit(X).n_features_ == Templates(PATTERNS).fit(X).n_features_


@pytest.mark.parametrize(("settings", "message"), [
    ({"patterns": "U0:%x[0,0]\nV"}, "line 2: expected a pattern that begins with U or B"),
    ({"patterns": 3}, "patterns: expected the name or the text of a pattern file, got 3"),
    ({"windows": "w[0]"}, "a column 'w'; there are: 0, 1"),
    ({"shapes": "w"}, "shapes: expected columns out of 0, 1"),
    ({"words": "w"}, "words: expected columns out of 0, 1"),
    ({"patterns": "U\n", "min_count": 0}, "min_count: expected an integer from 1"),
    ({"patterns": "U\n", "n_hashed": 2.0}, "n_hashed: expected an integer from 1"),
    ({"patterns": "U\n", "n_hashed": 8, "min_count": 2}, "give one of min_count and n_hashed"),
])  # fmt: skip
def test_wrong_settings(settings, message):
    with pytest.raises(InputError, match=message):
        Templates(**settings).fit(X)


@pytest.mark.parametrize(("items", "message"), [
    ("text", "expected a list of items with columns of texts"),
    ([["a", 3]], "item 0, position 1: expected a text in the column '0', got 3"),
    ([[("a", "b"), ("c",)]], "item 0, position 1: expected a list of 2 texts"),
    ([3], "item 0: expected a list of positions"),
])  # fmt: skip
def test_wrong_columns(items, message):
    with pytest.raises(InputError, match=message):
        Templates("U0:%x[0,0]\n").fit(items)


def test_no_columns_to_make_features_of():
    with pytest.raises(InputError, match="expected patterns, windows, shapes, words or functions, got none"):
        Templates().fit([[]])


def test_not_fitted():
    with pytest.raises(NotFittedError):
        Templates(PATTERNS).transform(X)


def test_expressions_that_backtrack_stop_neither_templates_nor_taggers(tmp_path):
    patterns = 'u:%m[0,0,"a*a*a*a*a*a*b"]\nu:%t[0,0,".*.*.*.*.*x"]\nu:%x[0,1]\nb\n'
    items = [[("a" * 60, "DT"), ("a" * 60 + "b", "NN")], [("y" * 120, "DT"), ("y" * 120 + "x", "NN")]]
    fitted = make_pipeline(Templates(patterns), ChainCRF(l1=0.05)).fit(items, [["D", "N"]] * 2)
    assert {"u:" + "a" * 60 + "b", "u:", "u:true", "u:false"} <= {*fitted[0].get_feature_names_out()}
    fitted[1].save(tmp_path / "model.crfqn")
    assert (
        Tagger(tmp_path / "model.crfqn").tag_items(items) == lists(fitted.predict(items)) == [["D", "N"]] * 2
    )
