"""`crfqn path`: its table, files and model, folds, rows, and mistakes."""

import json

import numpy as np
import pytest
from command_line import run_here

import crfqn


class TestCommand:
    @pytest.fixture
    def here(self, monkeypatch, tmp_path):
        return lambda *arguments: run_here(monkeypatch, tmp_path, "path", *arguments, "--threads", 1)

    def test_table_files_and_model(self, here, tmp_path):
        pytest.importorskip("matplotlib")
        run = here("digits", "--values", 4, "--l1", 100, "-o", "best", "--csv", "p.csv", "--plot", "p.png")
        assert run.returncode == 0, run.stderr
        lines = run.stdout.splitlines()
        assert lines[0].split() == ["l1", "accuracy", "non-zeros", "gap", "passes", "seconds"]
        rows = [line.split() for line in lines[1:5]]
        assert float(rows[-1][0]) == 100
        assert rows[0][2] == "0"
        assert rows[-1][-1] == "best"
        assert lines[5].startswith("    together")
        assert "(test part)" in run.stdout
        *values, note = run.stderr.splitlines()
        assert len(values) == 4
        assert "the smallest of the 4 values, l1 = 100: smaller ones may be better" in note
        assert note.endswith("`--l1 10` goes on to them.")
        assert crfqn.load(tmp_path / "best").l1 == 100
        assert (tmp_path / "p.csv").read_text().count("\n") == 5
        assert (tmp_path / "p.png").stat().st_size > 1000

    def test_folds_as_json(self, here, tmp_path):
        run = here("digits", "--values", 3, "--l1", 300, "--cv", 2, "--json", "-q", "--tol", 0.01)
        assert run.returncode == 0, run.stderr
        content = json.loads(run.stdout)
        assert len(content["path"]) == 3
        assert content["path"][content["best"]]["score"] == max(row["score"] for row in content["path"])
        assert content["best_end"] == "smallest"
        assert run.stderr == ""
        assert list(tmp_path.iterdir()) == []

    def test_rows(self, here, tmp_path):
        (tmp_path / "train.txt").write_text("a 0:1\nb 1:1\nc 2:1\n" * 10)
        (tmp_path / "recipe.toml").write_text(
            'name = "mine"\ntitle = "Mine"\n[data]\ntrain = "train.txt"\ntest = "train.txt"\n'
            '[features]\nkind = "given"\n'
            '[structure]\nkind = "flat"\n[objective]\nloss = "squared-hinge"\npenalty = "l1/l2"\n'
        )
        run = here("recipe.toml", "--patience", 5, "--values", 3, "--csv", "p.csv")
        assert run.returncode == 0, run.stderr
        lines = run.stdout.splitlines()
        assert lines[0].split()[0] == "group_l1"
        assert "best       group_l1 = " in run.stdout
        assert "group_l1 = " in run.stderr
        values = [float(line.split(",")[0]) for line in (tmp_path / "p.csv").read_text().splitlines()[1:]]
        assert [float(line.split()[0]) for line in lines[1:4]] == pytest.approx(values, rel=1e-5)
        assert values[0] >= 99.9 * values[-1]

    def test_time_is_up(self, here):
        run = here("digits", "--values", 4, "--max-time", 0.01, "-q")
        assert run.returncode == 4
        assert "cut off" in run.stdout
        assert run.stderr == "The time limit (--max-time) is reached; the table has the values so far.\n"

    def test_pairs_around_the_default(self, here, tmp_path):
        items = ["Ada\tB\nCurie\tI\nworked\tO\n", "in\tO\nParis\tB\n", "Noether\tB\nproved\tO\nit\tO\n"] * 4
        (tmp_path / "train.conll").write_text("\n".join(items))
        run = here("--data", "train.conll", "--cv", 3, "--values", 5, "-o", "best", "-q")
        assert run.returncode == 0, run.stderr
        assert run.stderr == ""
        lines = run.stdout.splitlines()
        assert lines[0].split()[:3] == ["l1", "l2", "accuracy"]
        assert "default" in lines[1]
        rows = [[float(number) for number in line.split()[:2]] for line in lines[1:6]]
        steps = [(l1 / rows[0][0], l2 / rows[0][1]) for l1, l2 in rows]
        expected = [(1, 1), (3, 1), (1, 3), (1, 1 / 3), (1 / 3, 1)]
        assert np.ravel(steps) == pytest.approx(np.ravel(expected), rel=1e-4)
        (best,) = (row for row, line in zip(rows, lines[1:6], strict=True) if line.endswith("best"))
        model = crfqn.load(tmp_path / "best")
        assert [model.l1_, model.l2_] == pytest.approx(best, rel=1e-4)
        assert "default is kept" in run.stdout or "better than the default by" in run.stdout

    @pytest.mark.parametrize(("arguments", "message"), [
        (("digits", "--holdout", 1), "--holdout 1 leaves none of the 1500 training items"),
        (("unknown",), "unknown: there is no such file, nor a ready-made model"),
        (("digits", "--csv", "no/folder/p.csv"), "no/folder/p.csv"),
        (("digits", "--plot", "p.doc"), "expected a picture's file"),
    ])  # fmt: skip
    def test_bad_input(self, here, arguments, message):
        if "--plot" in arguments:
            pytest.importorskip("matplotlib")
        run = here(*arguments)
        assert run.returncode == 2
        assert message in run.stderr


@pytest.mark.parametrize("structure", ["chain", "flat"])
def test_folds_are_those_of_cross_validation(structure, monkeypatch, tmp_path):
    """The items are sorted by source, so that folds in the order of the file have other scores."""
    words = np.random.RandomState(0).randint(0, 6, (3, 8, 2)) + np.array([0, 2, 4])[:, None, None]
    labels = (words[..., 0] + words[..., 1] * np.arange(1, 4)[:, None]) % 3
    if structure == "chain":
        name, options = "train.conll", ()
        lines = [
            f"w{a} {label}\nw{b} {(label + a) % 3}\n"
            for (a, b), label in zip(words.reshape(-1, 2), labels.flat, strict=True)
        ]
    else:
        name, options = "train.csv", ("--structure", "flat")
        lines = ["a,b,label"] + [
            f"x{a},y{b},l{label}" for (a, b), label in zip(words.reshape(-1, 2), labels.flat, strict=True)
        ]
    (tmp_path / name).write_text("\n".join(lines))

    def run(command, *arguments):
        found = run_here(
            monkeypatch,
            tmp_path,
            command,
            "--data",
            name,
            *options,
            *arguments,
            *["--threads", "1", "--json", "-q"],
        )
        assert found.stdout, found.stderr
        return json.loads(found.stdout)

    for tol in ((), ("--tol", 1e-4)):
        (row,) = run("path", "--cv", 3, "--values", 1, *tol)["path"]
        found = run("cv", "--folds", 3, "--l1", row["l1"], "--l2", row.get("l2", 0), *tol)
        assert row["score"] == pytest.approx(found["summary"]["accuracy"]["mean"], abs=1e-9)
