"""A column of a table none of whose texts a model knows is said: most often, they are written in another way."""

import csv
import warnings

import numpy as np
import pytest

from crfqn import Model, load
from crfqn.errors import UnknownFeaturesWarning

RNG = np.random.default_rng(0)
FLAGS = RNG.integers(0, 2, 60).astype(bool)
NUMBERS = (RNG.standard_normal(60) + FLAGS).round(3)


def write(path, flags, colours):
    with path.open("w", newline="") as stream:
        rows = csv.writer(stream)
        rows.writerow(["flag", "colour", "n", "label"])
        for flag, colour, n, is_yes in zip(flags, colours, NUMBERS, FLAGS, strict=True):
            rows.writerow([flag, colour, n, "yes" if is_yes else "no"])


@pytest.mark.parametrize("command", ["evaluate", "predict"])
def test_a_column_of_a_table(here, tmp_path, command):
    colours = RNG.choice(["red", "blue"], 60)
    write(tmp_path / "train.csv", FLAGS, colours)
    write(tmp_path / "test.csv", [str(flag).lower() for flag in FLAGS], colours)
    options = ("--structure", "flat", "-q", "--l1", 0.1)
    here("train", "--data", "train.csv", *options, "-o", "m.crfqn", code=0)
    done = here(command, "m.crfqn", "test.csv", code=0)
    told = [line for line in done.stderr.splitlines() if line.startswith("Warning")]
    assert len(told) == 1
    assert told[0].startswith("Warning: column 'flag': the model knows none of 60 values, such as '")
    assert "' differ in case or blanks alone" in told[0]
    assert "Warning" not in here(command, "m.crfqn", "train.csv", code=0).stderr
    # The training keeps all of its texts; of the file those with weights are read, in Python, too.
    rows = [{"flag": str(flag).lower(), "colour": "red", "n": 1.5} for flag in FLAGS]
    for opened in (load(tmp_path / "m.crfqn"), Model.open(tmp_path / "m.crfqn")):
        with pytest.warns(UnknownFeaturesWarning, match="column 'flag'") as caught:
            opened.predict(rows)
        assert caught[0].message.n_items == 0


def test_texts_without_a_weight_are_no_reason(here, tmp_path):
    """A table's file keeps the texts with weights; data like those of the training have others, too."""
    colours = RNG.choice([f"c{i}" for i in range(30)], 60)
    write(tmp_path / "train.csv", FLAGS, colours)
    here("train", "--data", "train.csv", "--structure", "flat", "-q", "--l1", 1.5, "-o", "m.crfqn", code=0)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for flag, colour in zip(FLAGS, colours, strict=True):
            Model.open(tmp_path / "m.crfqn").predict([{"flag": str(flag), "colour": colour, "n": 1.5}])
    assert not [w for w in caught if "column" in str(w.message)]
