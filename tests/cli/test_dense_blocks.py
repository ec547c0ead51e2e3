"""A dense block from a file of numpy's beside a file of sentences or texts: train, evaluate, predict, inspect."""

import json

import numpy as np
import pytest
from command_line import run_here

from crfqn import load

SENTENCES = "a A\nb B\n\nb B\n\na A\na B\nb B\n\n" * 4
TEXTS = "A\tgood one\nB\tbad one\nA\tone\n" * 6


@pytest.fixture
def run(tmp_path, monkeypatch):
    random = np.random.default_rng(0)
    (tmp_path / "s.conll").write_text(SENTENCES)
    (tmp_path / "t.text").write_text(TEXTS)
    np.save(tmp_path / "s.npy", random.normal(size=(24, 3)))
    np.savez(tmp_path / "t.npz", random.normal(size=(18, 2)))
    np.savez(tmp_path / "two.npz", np.eye(2), np.eye(3))
    np.save(tmp_path / "nan.npy", np.full((24, 3), np.nan))
    return lambda *arguments, **options: run_here(monkeypatch, tmp_path, *arguments, **options)


@pytest.mark.parametrize(
    ("file", "dense", "more", "n_dense"),
    [("s.conll", "s.npy", [], 3), ("t.text", "t.npz", ["--structure", "flat"], 2)],
)
def test_from_files_to_labels(run, tmp_path, file, dense, more, n_dense):
    run("train", "--data", file, *more, "--dense", dense, "--dense-l2", "0.5", "-q", "-o", "m.crfqn", code=0)
    model = load(tmp_path / "m.crfqn")
    assert (model.n_dense_, model.dense_l2) == (n_dense, 0.5)
    scores = json.loads(run("evaluate", "m.crfqn", file, "--dense", dense, "--json").stdout)
    assert scores["accuracy"] > 0.8
    lines = run("predict", "m.crfqn", file, "--dense", dense).stdout.split()
    given = (SENTENCES if n_dense == 3 else TEXTS).splitlines()
    labels = [line.split()[-1 if n_dense == 3 else 0] for line in given if line]
    assert np.mean(np.array(lines) == labels) == pytest.approx(scores["accuracy"], abs=1e-4)
    assert f"{n_dense} columns beside" in run("inspect", "m.crfqn").stdout


def test_mistakes_are_named(run):
    run("train", "--data", "s.conll", "--dense", "s.npy", "-q", "-o", "m.crfqn")
    run("train", "--data", "s.conll", "-q", "-o", "plain.crfqn")
    for arguments, message in (
        (
            ["predict", "m.crfqn", "s.conll"],
            "m.crfqn: trained with a dense block of 3 columns; expected --dense FILE",
        ),
        (["predict", "plain.crfqn", "s.conll", "--dense", "s.npy"], "plain.crfqn: --dense: trained without"),
        (["predict", "m.crfqn", "s.conll", "--dense", "t.npz"], "t.npz: expected 24 rows, one a position"),
        (["evaluate", "m.crfqn", "s.conll", "--dense", "two.npz"], "two.npz: expected one array, got 2"),
        (
            ["evaluate", "m.crfqn", "s.conll", "--dense", "nan.npy"],
            "nan.npy: item 0, position 0: dense column 0: expected a finite number of at most 1e+12",
        ),
        (
            ["evaluate", "m.crfqn", "s.conll", "--dense", "s.conll"],
            "s.conll: expected an array of numbers in a .npy",
        ),
        (["evaluate", "m.crfqn", "s.conll", "--dense", "no.npy"], "no.npy: there is no such file"),
        (["train", "digits", "--dense", "s.npy"], "--dense: expected --data FILE alone"),
        (["serve", "m.crfqn"], "serve: expected a model without a dense block"),
        (["report", "m.crfqn", "-o", "r.html"], "report: expected a model without a dense block"),
    ):
        found = run(*arguments)
        assert found.returncode != 0
        assert message in found.stderr
