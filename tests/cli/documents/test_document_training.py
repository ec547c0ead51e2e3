"""`crfqn train` on documents: the embedded docstrings and files of one's own, to prediction."""

import json
import os
import re
from typing import ClassVar

import pytest
from own_documents import TEXTS


class TestTrain:
    def test_summary(self, trained):
        folder, run = trained
        assert run.returncode == 0, run.stderr
        rows = dict(line.split(maxsplit=1) for line in run.stdout.splitlines())
        assert list(rows) == ["status", "objective", "gap", "non-zeros", "time", "accuracy", "model"]
        assert rows["status"].startswith("converged")
        n_nonzero, n_weights, n_nodes, n_features = re.fullmatch(
            r"([\d,]+) of ([\d,]+) weights \(([\d,]+) nodes x ([\d,]+) features\)", rows["non-zeros"]
        ).groups()
        assert number(n_weights) == number(n_nodes) * number(n_features)
        assert 0 < number(n_nonzero) < number(n_weights) / 100
        accuracy, f1 = re.fullmatch(
            r"([\d.]+) of [\d,]+ items, hierarchical F1 ([\d.]+) \(test part\)", rows["accuracy"]
        ).groups()
        assert 0.1 < float(accuracy) < float(f1) < 1
        assert f"of {number(n_nodes):,} nodes for training" in run.stderr
        assert re.search(
            r"^[\d,]+ items, [\d,]+ features, \d+ labels in a taxonomy", run.stderr, re.MULTILINE
        )
        assert "\x1b" not in run.stderr
        assert [path.name for path in folder.iterdir()] == ["stdlib.crfqn"]

    def test_flat_summary(self, texts):
        rows = dict(line.split(maxsplit=1) for line in texts[1].stdout.splitlines())
        assert rows["non-zeros"].endswith(" of 27 weights (3 labels x 8 features and a constant)")
        assert rows["accuracy"] == "1.0000 of 15 items (test part)"

    def test_limits_save_the_model(self, here, tmp_path):
        run = here("train", "stdlib-flat", "--l1", 3, "--max-iter", 1, "--threads", 1, "--tol", 1e-9, code=4)
        assert "Not converged" in run.stderr
        assert (tmp_path / "stdlib-flat.crfqn").is_file()

    def test_labels_of_one_item_each(self, here, tmp_path):
        """scikit-learn warns that they might be numbers to be predicted."""
        for name in ("train.txt", "test.txt"):
            (tmp_path / name).write_text("".join(f"label{i}\tword{i}\n" for i in range(30)))
        (tmp_path / "recipe.toml").write_text(TEXTS + "[objective]\nl1 = 0.1\n")
        run = here("train", ".", "-q", "--threads", 1)
        assert (run.returncode, run.stderr) == (0, "")


def number(text):
    return int(text.replace(",", ""))


class TestInferred:
    """The labels are paths: the taxonomy is that of the training part."""

    LINES: ClassVar = "pets/cat\tMiaow\npets/dog\tWoof\nbird\tTweet\n" * 5
    RECIPE: ClassVar = TEXTS.replace('kind = "flat"', 'kind = "taxonomy"') + "[objective]\nl1 = 0.1\n"

    def train(self, here, tmp_path, test):
        for name, content in {"recipe.toml": self.RECIPE, "train.txt": self.LINES, "test.txt": test}.items():
            (tmp_path / name).write_text(content)
        return here("train", ".", "--threads", 1, code=0)

    def test_labels_of_the_test_part_change_nothing_but_the_score(self, here, tmp_path):
        runs = [
            self.train(here, tmp_path, self.LINES + more) for more in ("", "pets/fish/carp\tBlub\ncow\tMoo\n")
        ]
        for run in runs:
            assert "3 labels in a taxonomy of 4 nodes" in run.stderr
        rows = [dict(line.split(maxsplit=1) for line in run.stdout.splitlines()) for run in runs]
        assert rows[0]["objective"] == rows[1]["objective"]
        assert [row["accuracy"].split()[:3] for row in rows] == [
            ["1.0000", "of", "15"],
            ["0.8824", "of", "17"],
        ]
        run = here("evaluate", "own.crfqn", "--json", code=0)
        content = json.loads(run.stdout)
        assert (content["accuracy"], content["log_likelihood"]) == (15 / 17, None)
        assert 15 / 17 < content["hierarchy"]["f1"] < 1
        assert here("evaluate", "own.crfqn", "--json", "-", input="zoo/gnu\tMoo miaow\n").returncode == 0

    def test_models_without_intercepts_have_none_to_count(self, here, tmp_path):
        self.train(here, tmp_path, self.LINES)
        run = here("inspect", "own.crfqn")
        assert re.search(r"^non-zeros  \d+$", run.stdout, re.MULTILINE)
        assert "n_nonzero_intercepts" not in json.loads(here("inspect", "own.crfqn", "--json").stdout)


@pytest.mark.skipif("CRFQN_DATA" not in os.environ, reason="needs the data in CRFQN_DATA")
def test_real_images(here, tmp_path):
    run = here("train", "imageclef", "--l1", 100, "--threads", 2, code=0)
    accuracy = float(re.search(r"accuracy +([\d.]+) of 1,006 items", run.stdout)[1])
    assert accuracy > 0.5
    (tmp_path / "new").write_text("0 " + " ".join(f"{pixel}:3" for pixel in range(1, 81)))
    assert re.fullmatch(r"\d+/\d+/\d+\n", here("predict", "imageclef.crfqn", "new").stdout)


class TestMarginsAndRankings:
    """Models without probabilities, from training to prediction."""

    RECIPE = """
name = "mine"
title = "Mine"
[data]
train = "train.txt"
test = "test.txt"
[features]
kind = "text"
[structure]
kind = "{kind}"
[objective]
group_l1 = 0.01
fit_intercept = true
"""
    TEXTS: ClassVar = {"a": "cats and more cats", "b": "dogs and wolves", "c": "birds that sing"}

    def write(self, folder, kind, labels):
        lines = [f"{label}\t{' '.join(self.TEXTS[part] for part in label.split(','))}" for label in labels]
        (folder / "train.txt").write_text("\n".join(lines * 3) + "\n")
        (folder / "test.txt").write_text("\n".join(lines) + "\n")
        (folder / "recipe.toml").write_text(self.RECIPE.format(kind=kind))

    @pytest.mark.parametrize(
        ("kind", "labels", "options"),
        [
            ("flat", ["a", "b", "c"], ["--loss", "squared-hinge", "--penalty", "l1/l2"]),
            ("ranking", ["a", "b", "a,b", "c", "b,c"], []),
        ],
        ids=["squared hinge", "ranking"],
    )
    def test_train_evaluate_inspect_predict(self, tmp_path, here, kind, labels, options):
        self.write(tmp_path, kind, labels)
        here("train", ".", "-o", "m.crfqn", *options, code=0)
        content = json.loads(here("evaluate", "m.crfqn", "--json").stdout)
        assert (content["accuracy"], content["log_likelihood"]) == (1.0, None)
        assert [row["label"] for row in content["labels"]] == ["a", "b", "c"]
        assert "log-likelihood" not in here("evaluate", "m.crfqn").stdout
        facts = json.loads(here("inspect", "m.crfqn", "--json").stdout)
        assert len(facts["data_fingerprint"]) == 64
        assert (facts["settings"]["penalty"], facts["settings"]["group_l1"]) == ("l1/l2", 0.01)
        assert here("predict", "m.crfqn", "test.txt").stdout.splitlines() == labels
        answers = here("predict", "m.crfqn", "test.txt", "--json").stdout.splitlines()
        is_ranking = kind == "ranking"
        expected = [{"labels": label.split(",")} if is_ranking else {"label": label} for label in labels]
        assert [*map(json.loads, answers)] == expected
        message = "--marginals is for models with probabilities"
        here("predict", "m.crfqn", "test.txt", "--marginals", error=message)
