"""Items without positions among JSON lines: counted and answered as others, by every command that labels."""

import json

import pytest
from command_line import run_here

from crfqn.errors import DataError
from crfqn.readers import read

FULL = {"tokens": ["a", "b"], "labels": ["X", "Y"]}
EMPTY = {"tokens": [], "labels": []}


def lines(*records):
    return "".join(f"{json.dumps(record)}\n" for record in records)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("empty")
    (folder / "train.jsonl").write_text(lines(FULL, FULL))
    with pytest.MonkeyPatch.context() as patch:
        run_here(patch, folder, "train", "--data", "train.jsonl", "-q", "--l1", 0.01, "-o", "m.crfqn", code=0)
    return folder


@pytest.mark.parametrize("place", [0, 1, 2])
class TestCommands:
    @pytest.fixture
    def run(self, folder, monkeypatch, place):
        records = [FULL, FULL]
        records.insert(place, EMPTY)
        (folder / "new.jsonl").write_text(lines(*records))
        return lambda *arguments: run_here(monkeypatch, folder, *arguments)

    def test_evaluate(self, run):
        done = run("evaluate", "m.crfqn", "new.jsonl", "--json")
        scores = json.loads(done.stdout)
        assert (scores["n_items"], scores["n_positions"], scores["accuracy"]) == (3, 4, 1.0)

    def test_predict(self, run, place):
        done = run("predict", "m.crfqn", "new.jsonl", "--json")
        assert [len(json.loads(line)["labels"]) for line in done.stdout.splitlines()] == [
            0 if item == place else 2 for item in range(3)
        ]
        done = run("predict", "m.crfqn", "new.jsonl", "--to", "jsonl")
        assert [json.loads(line) for line in done.stdout.splitlines()][place] == EMPTY

    def test_report(self, run):
        pytest.importorskip("jinja2")
        done = run("report", "m.crfqn", "new.jsonl")
        assert (done.returncode, "scores of 3 items" in done.stdout) == (0, True), done.stderr

    def test_test_and_dev_files(self, run):
        done = run(
            *("train", "--data", "train.jsonl", "--test", "new.jsonl", "--dev", "new.jsonl"),
            *("--l1", 0.01, "-o", "again.crfqn"),
        )
        assert (done.returncode, "of 3 whole items" in done.stdout) == (0, True), done.stderr


def test_the_item_that_lacks_a_label_is_named(folder, monkeypatch):
    (folder / "gap.jsonl").write_text(lines(EMPTY, FULL, FULL | {"labels": ["X", ""]}))
    run_here(
        monkeypatch,
        folder,
        "evaluate",
        "m.crfqn",
        "gap.jsonl",
        error="gap.jsonl, line 3, position 1: 1 of 2 positions have no label",
    )


@pytest.mark.parametrize(
    "records",
    [
        [EMPTY, {"tokens": [{"w": "a"}], "labels": ["X"]}],
        [{"features": [], "labels": []}, {"features": [{"a": 1}], "labels": ["X"]}],
        [{"tokens": []}, {"tokens": ["a"]}],
        [EMPTY, EMPTY],
    ],
)
def test_every_item_has_its_line(tmp_path, records):
    (tmp_path / "a.jsonl").write_text("\n" + lines(*records))
    data = read(tmp_path / "a.jsonl")
    assert [len(item) for item in data.labels] == [len(item) for item in data.inputs]
    assert [data.places.line(item) for item in range(2)] == [2, 3]


def test_other_lengths_are_still_refused(tmp_path):
    (tmp_path / "a.jsonl").write_text(lines(EMPTY, FULL | {"labels": []}))
    with pytest.raises(DataError, match=r"a\.jsonl, line 2: expected 2 labels, one a position, got 0"):
        read(tmp_path / "a.jsonl")
