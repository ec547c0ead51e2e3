"""`crfqn report`: a page from a model file and a labelled file, and what it refuses."""

from __future__ import annotations

import json

import pytest
from command_line import run_here

from crfqn import ChainCRF

pytest.importorskip("jinja2")
pytest.importorskip("matplotlib")


@pytest.fixture(scope="module")
def model():
    X, y = [[{"w[0]": "a"}, {"w[0]": "b"}]] * 4, [["A", "B"]] * 4
    return ChainCRF(l1=0.1).fit(X, y)


@pytest.fixture
def here(model, monkeypatch, tmp_path):
    model.save(tmp_path / "model.crfqn")
    (tmp_path / "test.txt").write_text("A\tw[0]=a\nA\tw[0]=b\n\nA\tw[0]=a\n")
    return lambda *arguments, **options: run_here(monkeypatch, tmp_path, "report", *arguments, **options)


def test_page_with_scores(here, tmp_path):
    run = here("model.crfqn", "test.txt", "--title", "Mine & yours", "--errors", 1)
    page = (tmp_path / "report.html").read_text("utf-8")
    assert run.returncode == 0, run.stderr
    assert run.stdout == f"report.html ({len(page.encode()):,} bytes, with scores of 2 items)\n"
    assert run.stderr == ""
    assert "Mine &amp; yours" in page
    assert '<section id="errors"' in page
    assert "On <bdi>test.txt</bdi>: 2 items." in page


def test_without_data_it_says_so(here, tmp_path):
    run = here("model.crfqn", "-o", "page.html", "--json", code=0)
    size = (tmp_path / "page.html").stat().st_size
    assert json.loads(run.stdout) == {"path": "page.html", "bytes": size, "n_items": None}
    assert run.stderr.startswith(
        "Without scores and errors, as there is no data to evaluate on: model.crfqn: "
    )
    assert here("model.crfqn", "-q").stderr == ""


def test_standard_input(here, tmp_path):
    here("model.crfqn", "-", input="A\tw[0]=a\nB\tw[0]=b\n", code=0)
    assert "None: every label is right." in (tmp_path / "report.html").read_text("utf-8")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("none.crfqn",), "none.crfqn: there is no such file"),
        (("model.crfqn", "none.txt"), "none.txt: there is no such file"),
        (("model.crfqn", "test.txt", "-o", "no/folder.html"), "cannot write no/folder.html: the folder"),
    ],
)
def test_bad_input(here, tmp_path, arguments, message):
    here(*arguments, error=message)
    assert not (tmp_path / "report.html").exists()


def test_labels_that_are_missing(here, tmp_path):
    (tmp_path / "bare.txt").write_text("\tw[0]=a\n")
    here("model.crfqn", "bare.txt", error="bare.txt: has no labels to compare with")


def test_errors_show_the_first_column(monkeypatch, tmp_path):
    """The word, not the tag, whichever of their features comes first."""
    rows = "dog NN B\nthe DT A\n\n"
    (tmp_path / "train.conll").write_text(rows * 4)
    (tmp_path / "test.conll").write_text("dog NN A\nthe DT A\n\n")
    run_here(monkeypatch, tmp_path, "train", "--data", "train.conll", "-o", "model.crfqn", "-q")
    run_here(monkeypatch, tmp_path, "report", "model.crfqn", "test.conll", code=0)
    errors = (tmp_path / "report.html").read_text("utf-8").split('<section id="errors"')[1]
    assert "<bdi>dog</bdi>" in errors
    assert "<bdi>NN</bdi>" not in errors
