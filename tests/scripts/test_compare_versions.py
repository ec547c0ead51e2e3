"""Two versions by turns: a checkout is the same as itself, and another one is told."""

from __future__ import annotations

from pathlib import Path

import compare_versions
import pytest
from typer.testing import CliRunner

ROOT = Path(__file__).resolve().parents[2]


def run(*options):
    return CliRunner().invoke(compare_versions.app, [str(ROOT), str(ROOT), "--data", "few-strings", *options])


def test_a_version_is_the_same_as_itself():
    done = run("--tol", "1e-3", "--turns", "2")
    assert done.exit_code == 0, done.output
    (row,) = [line for line in done.stdout.splitlines() if "few-strings" in line]
    assert "differs" not in row


def test_other_passes_are_told(monkeypatch):
    class Version:
        """One that takes a pass more than the version made before it."""

        n_made = 0

        def __init__(self, tree):
            Version.n_made += 1
            self.passes, self.told = 10.0 + Version.n_made, []

        def fit(self, name, settings):
            self.told.append((name, settings))
            return {"passes": self.passes, "value": 2.0, "status": "CONVERGED", "seconds": len(self.told)}

        def close(self):
            assert self.told[0] == ("few-strings", None)
            assert [settings["tol"] for _, settings in self.told[1:]] == [3e-2] * 3 + [1e-3] * 3 + [1e-4] * 3

    monkeypatch.setattr(compare_versions, "Version", Version)
    done = run()
    assert done.exit_code == 1, done.output
    rows = [line.split("|")[1:-1] for line in done.stdout.splitlines() if "few-strings" in line]
    assert [[cell.strip() for cell in row[1:]] for row in rows if row[-1].strip()] == [
        ["0.03", "11", "12", "3.00", "3.00", "1.000", "differs"],
        ["0.001", "11", "12", "6.00", "6.00", "1.000", "differs"],
        ["0.0001", "11", "12", "9.00", "9.00", "1.000", "differs"],
    ]


@pytest.mark.parametrize("change", [{"passes": 11.0}, {"value": 2.001}, {"status": "MAX_ITER"}])
def test_what_is_the_same(change):
    one = {"passes": 10.0, "value": 2.0, "status": "CONVERGED", "seconds": 1.0}
    assert compare_versions.are_same(one, one | {"seconds": 2.0, "value": 2.0 + 1e-12})
    assert not compare_versions.are_same(one, one | change)
