"""`crfqn inspect --card`: a model card in Markdown of what the file holds."""

import re

import pytest
from command_line import run_here

import crfqn

LABELS = {"A", "x`y", "<b>"}
TRAIN = "one A\ntwo x`y\n\nthree <b>\none A\n\n"


@pytest.fixture
def run(tmp_path, monkeypatch):
    (tmp_path / "train.conll").write_text(TRAIN * 3)
    return lambda *arguments, **options: run_here(monkeypatch, tmp_path, *arguments, **options)


@pytest.fixture
def train(run):
    return lambda *more: run(
        *("train", "--data", "train.conll", "--l1", 0.1, "--threads", 1, "-o", "m.crfqn", "-q", *more), code=0
    )


def test_a_card_says_what_the_file_holds(run, train, tmp_path):
    train("--dev", "train.conll")
    model = crfqn.load(tmp_path / "m.crfqn")
    card = run("inspect", "m.crfqn", "--card", code=0).stdout
    assert re.findall("^## (.*)", card, re.MULTILINE) == [
        *("Labels", "Data", "Size", "Training", "Held-out scores", "Versions", "Use")
    ]
    assert card.startswith("# train\n")
    assert "- `A`\n" in card
    assert "- `` x`y ``\n" in card
    assert "- `<b>`\n" in card
    assert "kind `chain-crf` with 3 labels" in card
    assert f"- SHA-256 of the training data: `{model.training_['data_fingerprint']}`\n" in card
    assert "- train: `train.conll`\n" in card
    assert str(tmp_path) not in card
    assert "- `l1`: `0.1`\n" in card
    assert f"- non-zeros: {model.result_.n_nonzero:,}, of which" in card
    assert f"- features: {model.training_['n_features']:,}, of which" in card
    assert f"- file: {(tmp_path / 'm.crfqn').stat().st_size:,} bytes\n" in card
    assert f" {model.result_.held_out.best:.4f} at iteration {model.result_.held_out.iteration}\n" in card
    assert f"- model written by crfqn {crfqn.__version__}\n" in card
    assert "    crfqn predict m.crfqn FILE\n" in card


def test_the_python_lines_run(run, train, tmp_path, monkeypatch):
    train()
    card = run("inspect", "m.crfqn", "--card", code=0).stdout
    lines = card.split("In Python:\n")[1].split("\n")
    monkeypatch.chdir(tmp_path)
    names = {"X": [[["one"], ["two"]]]}
    exec("\n".join(line.strip() for line in lines), names)
    assert [*map(len, names["labels"])] == [2]
    assert {*names["labels"][0]} <= LABELS


def test_what_is_not_known_is_left_out(run, tmp_path):
    X, y = [[{"a": 1.0}, {"b": 1.0}]] * 3, [["P", "Q"]] * 3
    crfqn.ChainCRF(l1=0.1).fit(X, y).save(tmp_path / "own model.crfqn")
    card = run("inspect", "own model.crfqn", "--card", code=0).stdout
    assert card.startswith("# own model\n")
    assert re.findall("^## (.*)", card, re.MULTILINE) == ["Labels", "Size", "Training", "Versions", "Use"]
    assert "date" not in card.lower()
    assert "None" not in card.replace("`None`", "")
    assert "crfqn predict 'own model.crfqn' FILE" in card


def test_the_score_of_a_path(run, tmp_path):
    options = ("--values", 2, "--holdout", 0.4, "-o", "m.crfqn", "-q")
    assert run("path", "--data", "train.conll", *options).returncode in (0, 4)
    rows = crfqn.load(tmp_path / "m.crfqn").training_["regularization_path"]
    best = next(row["score"] for row in rows if row["is_best"])
    assert f"path of strengths: score {best:.4f}\n" in run("inspect", "m.crfqn", "--card", code=0).stdout


@pytest.mark.parametrize("more", [("--json",), ("--label", "A")])
def test_a_card_is_alone(run, train, more):
    train()
    message = (
        f"expected --card alone, which describes the whole model in Markdown, got --card {' '.join(more)}"
    )
    assert run("inspect", "m.crfqn", "--card", *more, error=message).stdout == ""


@pytest.mark.parametrize("structure", ["flat", "taxonomy"])
def test_a_card_of_texts(run, tmp_path, structure, monkeypatch):
    """It has the scores of the test part, no folder, and a call that runs."""
    folder = tmp_path / "private"
    folder.mkdir()
    (folder / "train.text").write_text("x/a\tgood day\nx/b\tbad day\nx/a\tgood work\nx/b\tbad work\n")
    (folder / "test.text").write_text("x/a\tgood day\nx/b\tgood\n")
    data = "--data", folder / "train.text", "--test", folder / "test.text"
    run("train", *data, "--structure", structure, "-q", "-o", "m.crfqn", code=0)
    card = run("inspect", "m.crfqn", "--card", code=0).stdout
    assert "private" not in card
    assert "accuracy 0.5000" in card.partition("## Held-out scores")[2]
    assert ("hierarchical F1 0.5000" in card) == (structure == "taxonomy")
    scores = crfqn.load(tmp_path / "m.crfqn").training_["test_scores"]
    assert (scores["n_items"], scores["accuracy"]) == (2, 0.5)
    assert "# X: a list of texts" in card
    lines = card.split("In Python:\n")[1].split("\n")
    monkeypatch.chdir(tmp_path)
    names = {"X": ["good day", "bad work"]}
    exec("\n".join(line.strip() for line in lines), names)
    assert names["labels"].tolist() == ["x/a", "x/b"]


def test_a_card_of_sequences_has_the_scores_of_the_test_part(run, train):
    train("--test", "train.conll")
    card = run("inspect", "m.crfqn", "--card", code=0).stdout
    assert re.search(
        r"^- test part: accuracy \d\.\d{4}, whole items \d\.\d{4}, items 6, positions 12$", card, re.M
    )
