"""What is found out from the beginning of a file whose lines are long, and data that come through pipes."""

from __future__ import annotations

import gzip
import json
import os
import threading

import numpy as np
import pytest

from crfqn import load
from crfqn.data.files import START_SIZE, read_start
from crfqn.errors import DataError
from crfqn.readers.registry import first_lines, read
from crfqn.recipes import prepare_data
from crfqn.recipes.finding import recipe_of_options

COLUMNS = "Ann B-PER\nLee I-PER\nlives O\n\nBob B-PER\nsings O\n\n"
TRAIN = ("train", "--threads", 1, "--l1", 0.01, "-q", "--json", "-o", "m.crfqn")
N_COLUMNS = 3_000


@pytest.fixture
def matrix(tmp_path):
    """A table whose first line has 70 kB, as of expression matrices."""
    rng = np.random.default_rng(0)
    names = [f"expression-of-gene-{column:05}" for column in range(N_COLUMNS)]
    lines = [",".join([*names, "label"])]
    lines += [",".join([*map(str, rng.integers(3, size=N_COLUMNS)), "AB"[row % 2]]) for row in range(10)]
    path = tmp_path / "wide.csv"
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture
def pipe(tmp_path):
    """Make a named pipe into which a thread writes."""
    threads = []

    def make(name, *pieces):
        os.mkfifo(tmp_path / name)

        def write():
            with open(tmp_path / name, "wb", buffering=0) as stream:
                for piece in pieces:
                    stream.write(piece)

        threads.append(threading.Thread(target=write, daemon=True))
        threads[-1].start()
        return name

    yield make
    for thread in threads:
        thread.join(10)


class TestBeginnings:
    @pytest.mark.parametrize("more", [(), ("--label", "label"), ("--header",)])
    def test_of_a_table_with_a_long_first_line(self, here, tmp_path, matrix, more):
        assert matrix.read_text().index("\n") > START_SIZE
        here(*TRAIN, "--structure", "flat", "--data", matrix, *more, code=0)
        assert load(tmp_path / "m.crfqn").featurizer_.n_columns == N_COLUMNS
        assert here("predict", "m.crfqn", matrix, code=0).stdout == "A\nB\n" * 5
        scores = json.loads(here("evaluate", "m.crfqn", matrix, "--json", code=0).stdout)
        assert (scores["n_items"], scores["accuracy"]) == (10, 1.0)

    def test_of_lines_of_documents(self, here, tmp_path):
        lines = [json.dumps({"text": f"{word} " * 20_000, "label": word}) for word in ("good", "evil") * 3]
        (tmp_path / "t.jsonl").write_text("\n".join(lines))
        here(*TRAIN, "--data", "t.jsonl", code=0)
        here(*TRAIN, "--data", "-", "--format", "jsonl", input="\n".join(lines), code=0)
        assert here("predict", "m.crfqn", "t.jsonl", code=0).stdout == "good\nevil\n" * 3

    def test_cells_of_any_length(self, here, tmp_path):
        """Python's own reader takes 131,072 characters."""
        cells = "good " * 40_000, "evil " * 40_000
        (tmp_path / "t.csv").write_text(f"text,label\n{cells[0]},good\n{cells[1]},evil\n")
        assert read(tmp_path / "t.csv").inputs == [*cells]
        here(*TRAIN, "--structure", "flat", "--data", "t.csv", code=0)
        assert here("predict", "m.crfqn", "t.csv", code=0).stdout == "good\nevil\n"

    @pytest.mark.parametrize("packed", [bytes, gzip.compress])
    def test_are_whole_lines(self, tmp_path, packed):
        path = tmp_path / "file"
        for length, n_lines in ((10, 8000), (START_SIZE + 5, 6), (5 * START_SIZE, 4)):
            lines = [f"{number:0{length}}" for number in range(n_lines)]
            path.write_bytes(packed("\n".join(lines).encode()))
            found = first_lines(path)
            assert found == lines[: len(found)]
            assert sum(len(line) + 1 for line in found) > START_SIZE - 20
            assert len(found) >= 2

    def test_of_zeros_without_end(self):
        assert read_start("/dev/zero") == (bytes(START_SIZE), False)


class TestPipes:
    @pytest.mark.parametrize("packed", [bytes, gzip.compress])
    @pytest.mark.parametrize("command", [TRAIN, ("cv", "-k", 2, "--l1", 0.01, "-q", "--json")])
    def test_of_training_data(self, here, pipe, packed, command):
        content = packed(COLUMNS.encode() * 3)
        pipe("data", content[:7], content[7:])
        test = ("--test", pipe("test", packed(COLUMNS.encode()))) if command == TRAIN else ()
        done = here(*command, "--data", "data", *test, code=0)
        if command == TRAIN:
            assert json.loads(done.stdout)["scores"]["accuracy"] == 1.0
            pipe("new", b"Ann\nLee\n")
            assert here("predict", "m.crfqn", "new", code=0).stdout == "B-PER\nI-PER\n\n"

    def test_of_a_recipe(self, here, pipe, tmp_path):
        pipe("data", COLUMNS.encode() * 3)
        (tmp_path / "r.toml").write_text(
            'name = "r"\ntitle = "R"\n[data]\ntrain = "data"\nformat = "conll"\n[features]\nkind = "words"\n'
        )
        here("train", "r.toml", "--l1", 0.1, "-q", "-o", "m.crfqn", code=0)

    def test_of_a_process(self, tmp_path):
        """What a shell names /dev/fd/63 cannot be resolved to a path."""
        receiver, sender = os.pipe()
        os.write(sender, COLUMNS.encode())
        os.close(sender)
        recipe = recipe_of_options(f"/dev/fd/{receiver}")
        assert (recipe.name, recipe.data.format) == ("model", "conll")
        assert prepare_data(recipe).y_train == [["B-PER", "I-PER", "O"], ["B-PER", "O"]]
        os.close(receiver)

    def test_without_an_end(self):
        with pytest.raises(DataError, match="/dev/zero: has more than 5000000 bytes"):
            read("/dev/zero", "conll", largest_size=5_000_000)
