"""Dicts of features that have vectors: the model is that of `Features`, and vectors of another length are errors."""

from __future__ import annotations

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from crfqn import ChainCRF, Features, Tagger
from crfqn.cli.app import app
from crfqn.errors import InputError

WORDS = [["the", "cat", "sleeps"], ["a", "bird", "sings"], [], ["sing"]]
LABELS = [["D", "N", "V"], ["D", "N", "V"], [], ["V"]]
VECTORS = {
    word: np.array([i % 2, i % 3 / 2]) for i, word in enumerate(sorted({w for item in WORDS for w in item}))
}
LETTERS = {word: [float(len(word))] for word in VECTORS}
SPARSE = [[{"w": word} for word in item] for item in WORDS]
DICTS = [[{"w": word, "z": VECTORS[word], "letters": LETTERS[word]} for word in item] for item in WORDS]
DENSE = [np.array([[*LETTERS[word], *VECTORS[word]] for word in item]) for item in WORDS]


def fitted(X):
    return ChainCRF(l1=0.1, dense_l2=0.5, tol=1e-6).fit(X, LABELS)


def test_the_model_is_that_of_two_blocks(tmp_path):
    model, twin = fitted(DICTS), fitted(Features(DENSE, SPARSE))
    np.testing.assert_array_equal(model.dense_coef_, twin.dense_coef_)  # keys in alphabetical order
    np.testing.assert_array_equal(model.coef_.toarray(), twin.coef_.toarray())
    assert model.predict(DICTS).tolist() == twin.predict(Features(DENSE, SPARSE)).tolist()
    model.save(tmp_path / "model.crfqn")
    tagger = Tagger(tmp_path / "model.crfqn")
    assert tagger.tag_items(DICTS) == model.predict(DICTS).tolist()
    assert tagger.tag(DICTS[1]) == model.predict(DICTS)[1]
    assert DICTS[0][0].keys() == {"w", "z", "letters"}  # the users' dicts stay as they are


@pytest.mark.parametrize(
    ("position", "message"),
    [
        (
            {"w": "x", "letters": [1.0]},
            "item 0, position 1: feature 'z': expected a vector of 2 numbers.*got None",
        ),
        ({"letters": [1.0], "z": np.ones(3)}, "position 1: feature 'z': expected a vector of 2 numbers"),
        (
            {"letters": ["a"], "z": np.ones(2)},
            "position 1: feature 'letters': expected a vector of 1 numbers",
        ),
        ({"letters": [np.nan], "z": np.ones(2)}, "position 1: dense column 0: expected a finite number"),
        (["w=x"], "position 1: feature 'letters': expected a vector"),
    ],
)
def test_other_vectors_are_errors(position, message):
    item = [DICTS[0][0], position]
    with pytest.raises(InputError, match=message):
        fitted([item, *DICTS[1:]])
    with pytest.raises(InputError, match=message):
        fitted(DICTS).predict([item])


def test_a_model_knows_the_length_of_its_vectors():
    model = fitted(DICTS)
    with pytest.raises(InputError, match="dense: expected 3 columns, as in training, got 1"):
        model.predict([[{"w": "cat", "letters": [3.0]}]])
    with pytest.raises(InputError, match="or dicts with vectors, as the model was trained on a dense block"):
        model.predict([[{"w": "cat"}]])
    with pytest.raises(InputError, match="position 0: feature 'z': expected a number, boolean"):
        ChainCRF(l1=0.1).fit(SPARSE, LABELS).predict([[{"w": "cat", "z": np.ones(2)}]])


def test_files_of_json_lines_have_vectors(tmp_path):
    path, model = tmp_path / "train.jsonl", tmp_path / "model.crfqn"
    lines = [
        {"features": [{"w": w, "z": VECTORS[w].tolist()} for w in item], "labels": labels}
        for item, labels in zip(WORDS, LABELS, strict=True)
        if item
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    run = CliRunner().invoke(app, ["train", "--data", str(path), "-o", str(model), "--l1", "0.1"])
    assert run.exit_code == 0, run.output
    run = CliRunner().invoke(app, ["predict", str(model), str(path)])
    assert run.stdout.split() == [label for labels in LABELS for label in labels]
    columns = tmp_path / "new.conll"
    columns.write_text("cat\n")
    run = CliRunner().invoke(app, ["predict", str(model), str(columns)])
    assert run.exit_code != 0
