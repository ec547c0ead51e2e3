"""`crfqn train --start MODEL`: from the weights of crfqn's own models and other tools', as `fit(start=)`."""

from __future__ import annotations

import csv
import json

import numpy as np
import pytest

import crfqn
from crfqn import interchange

WORDS = {"the": "D", "a": "D", "dog": "N", "cat": "N", "runs": "V", "sees": "V"}
RNG = np.random.default_rng(0)


def conll(n, words):
    items = [[words[k] for k in RNG.integers(len(words), size=RNG.integers(2, 7))] for _ in range(n)]
    return "\n\n".join("\n".join(f"{word} {WORDS[word]}" for word in item) for item in items) + "\n"


@pytest.fixture
def train(here):
    """Train; return what `--json` says and what was said beside it."""

    def run(*arguments):
        done = here("train", *arguments, "--json")
        assert done.returncode in (0, 3), done.stderr
        return json.loads(done.stdout), " ".join(done.stderr.split())

    return run


def test_labels_and_features_in_common(train, tmp_path):
    (tmp_path / "old.conll").write_text(conll(30, [*WORDS][:4]))
    (tmp_path / "new.conll").write_text(conll(60, [*WORDS]))
    train("--data", "old.conll", "-o", "old.crfqn")
    cold, _ = train("--data", "new.conll", "-o", "cold.crfqn", "--stop", "certificate", "--tol", "1e-6")
    again, said = train(
        *("--data", "new.conll", "-o", "warm.crfqn", "--start", "cold.crfqn", "--stop", "certificate"),
        *("--tol", "1e-6"),
    )
    assert "in common 3 of 3 labels" in said
    assert again["n_iter"] < cold["n_iter"]
    assert again["value"] == pytest.approx(cold["value"], rel=1e-5)
    grown, said = train("--data", "new.conll", "-o", "grown.crfqn", "--start", "old.crfqn", "--tol", "1e-6")
    assert "in common 2 of 3 labels" in said
    assert grown["value"] == pytest.approx(cold["value"], rel=1e-3)
    one, other = (crfqn.load(tmp_path / name) for name in ("grown.crfqn", "cold.crfqn"))
    assert one.classes_.tolist() == other.classes_.tolist() == ["D", "N", "V"]


def test_models_of_other_tools(train, tmp_path):
    lines = "".join(f"{label}\tw={word}\n" for word, label in WORDS.items()) + "\n"
    (tmp_path / "items.crfsuite").write_text(20 * lines)
    train("--data", "items.crfsuite", "-o", "m.crfqn")
    interchange.convert(tmp_path / "m.crfqn", tmp_path / "peer.model", target_format="crfsuite", lossy=True)
    facts, said = train("--data", "items.crfsuite", "-o", "again.crfqn", "--start", "peer.model")
    n_weights = crfqn.load(tmp_path / "m.crfqn").result_.n_nonzero
    assert f"start: {n_weights} of {n_weights} weights kept; in common 3 of 3 labels" in said
    assert min(facts["strengths"][name] for name in ("l1", "l2")) > 0


@pytest.mark.parametrize("kind", ["texts", "table"])
def test_features_that_are_made_of_the_data_are_found_by_name(train, tmp_path, kind):
    """The new data have other words (texts) in other columns: weights go where the words went."""
    n_words, data = (3, ["text", "label"]) if kind == "texts" else (1, ["size", "text", "label"])
    for name, known in (("old", "mmm nnn ooo zzz"), ("new", "aaa mmm nnn ooo ppp")):
        with (tmp_path / f"{name}.csv").open("w", newline="") as stream:
            writer = csv.DictWriter(stream, data, extrasaction="ignore")
            writer.writeheader()
            for _ in range(60):
                words, size = RNG.choice(known.split(), n_words), RNG.integers(9)
                label = "x" if "mmm" in words or size > 6 else "y"
                writer.writerow({"text": " ".join(words), "size": size, "label": label})
    options = "--structure", "flat", "--l1", "0.5"
    train("--data", "old.csv", "-o", "old.crfqn", *options)
    strict = *options, "--stop", "certificate", "--tol", "1e-6"
    cold, _ = train("--data", "new.csv", "-o", "new.crfqn", *strict)
    _, said = train("--data", "new.csv", "-o", "again.crfqn", *strict, "--start", "old.crfqn")
    assert "in common 2 of 2 labels" in said
    warm, said = train("--data", "new.csv", "-o", "again.crfqn", *strict, "--start", "new.crfqn")
    n_weights = crfqn.load(tmp_path / "new.crfqn").result_.n_nonzero
    assert f"start: {n_weights} of {n_weights} weights kept" in said
    assert warm["value"] == pytest.approx(cold["value"], rel=1e-5)
    assert warm["n_iter"] <= cold["n_iter"]


def test_mistakes(here, tmp_path):
    (tmp_path / "old.conll").write_text(conll(20, [*WORDS]))
    (tmp_path / "rows.csv").write_text("text,label\n" + "one dog,x\ntwo cats,y\n" * 5)
    assert here("train", "--data", "old.conll", "-o", "chain.crfqn", "--quiet").returncode == 0
    for start, message in {
        "none.crfqn": "none.crfqn: there is no such file",
        "rows.csv": "rows.csv: ",
        "chain.crfqn": "expected a model that `crfqn train` made from such data, which has names of features",
    }.items():
        done = here(
            "train", "--data", "rows.csv", "--structure", "flat", "-o", "m.crfqn", "--start", start, code=2
        )
        assert message in " ".join(done.stderr.split())
        assert not (tmp_path / "m.crfqn").exists()
