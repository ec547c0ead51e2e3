"""`crfqn compile`: what it compiles is on disk, for other processes too."""

import json

from command_line import crfqn, run_here

import crfqn as package
from crfqn.cli.compilation import FIRST_FITS


def test_what_was_compiled_is_not_compiled_again(tmp_path):
    found, folder = [], str(tmp_path)
    for given, settings in (["--to", folder], {}), ([], {"CRFQN_CODE": folder}):
        done = crfqn("compile", "CalibratedLeastSquares", "-q", "--json", *given, **settings, code=0)
        assert not done.stderr
        (row,) = json.loads(done.stdout)
        assert row["name"] == "CalibratedLeastSquares"
        assert row["seconds"] > 0
        found.append(row["n_compiled"])
    assert found[0] > 0
    assert found[1] == 0
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


def test_every_estimator_has_a_first_fit():
    public = {name: getattr(package, name) for name in package.__all__}
    estimators = {name for name, value in public.items() if hasattr(value, "predict")}
    assert estimators <= FIRST_FITS.keys()


def test_a_name_that_is_not_known(monkeypatch, tmp_path):
    done = run_here(monkeypatch, tmp_path, "compile", "Nobody", error="expected names of ChainCRF, ")
    assert "got 'Nobody'" in done.stderr


def test_a_folder_that_cannot_be_made(monkeypatch, tmp_path):
    (tmp_path / "file").touch()
    run_here(monkeypatch, tmp_path, "compile", "--to", "file/code", error="--to: cannot make the folder")
