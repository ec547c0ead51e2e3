"""`crfqn compile`: what it compiles is on disk, for other processes too."""

import json

from command_line import crfqn, run_here
from numba import njit

import crfqn as package
from crfqn.cli.compilation import FIRST_FITS


def test_what_was_compiled_is_not_compiled_again(tmp_path):
    found, folder = [], str(tmp_path)
    for given, settings in (["--to", folder], {}), ([], {"CRFQN_CODE": folder}):
        done = crfqn(
            "compile", "CalibratedLeastSquares", "-q", "--json", "--functions", *given, **settings, code=0
        )
        assert not done.stderr
        (row,) = json.loads(done.stdout)
        assert row["name"] == "CalibratedLeastSquares"
        assert row["seconds"] > 0
        found.append(row)
    before, after = found
    assert (after["n_compiled"], after["functions"]) == (0, {})
    own_seconds = [*before["functions"].values()]
    assert before["n_compiled"] >= len(own_seconds) > 0
    assert own_seconds == sorted(own_seconds, reverse=True)
    assert 0 < sum(own_seconds) < before["seconds"]
    assert any(tmp_path.rglob("*.nbc"))


def test_a_table_and_a_total(monkeypatch, tmp_path):
    done = run_here(
        monkeypatch, tmp_path, "compile", "GeneralizedLeastSquares", "CalibratedLeastSquares", code=0
    )
    assert done.stderr.split("\n") == ["GeneralizedLeastSquares ...", "CalibratedLeastSquares ...", ""]
    first, second, total = done.stdout.splitlines()
    assert first.startswith("GeneralizedLeastSquares ")
    assert second.startswith("CalibratedLeastSquares ")
    assert total.startswith("compiled and trained in ")


def test_a_list_of_functions(monkeypatch, tmp_path):
    def train(_):
        @njit
        def half(x):
            return x / 2

        @njit
        def quarter(x):
            return half(half(x))

        assert quarter(8.0) == 2.0

    monkeypatch.setitem(FIRST_FITS, "ChainCRF", train)
    done = run_here(monkeypatch, tmp_path, "compile", "ChainCRF", "-q", "--functions", code=0)
    assert not done.stdout
    done = run_here(monkeypatch, tmp_path, "compile", "ChainCRF", "--functions", code=0)
    first, *functions, _ = done.stdout.splitlines()
    assert first.startswith("ChainCRF    2 functions ")
    assert sorted(line.split()[-1].rpartition(".")[-1] for line in functions) == ["half", "quarter"]
    assert all(line.split()[1] == "s" for line in functions)


def test_every_estimator_has_a_first_fit():
    public = {name: getattr(package, name) for name in package.__all__}
    estimators = {name for name, value in public.items() if hasattr(value, "predict")}
    assert estimators <= FIRST_FITS.keys()


def test_a_name_that_is_not_known(monkeypatch, tmp_path):
    done = run_here(
        monkeypatch, tmp_path, "compile", "Nobody", error="expected names of ChainCRF-few-items, ChainCRF, "
    )
    assert "got 'Nobody'" in done.stderr


def test_a_folder_that_cannot_be_made(monkeypatch, tmp_path):
    (tmp_path / "file").touch()
    run_here(monkeypatch, tmp_path, "compile", "--to", "file/code", error="--to: cannot make the folder")
