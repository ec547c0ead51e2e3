"""Every script and every benchmark starts: its page of help names its options."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.main import get_command
from typer.testing import CliRunner

SCRIPTS = Path(__file__).resolve().parents[2] / "scripts"
FILES = sorted(path.stem for path in SCRIPTS.glob("*.py"))


def apps():
    """The scripts that are programs of typer, by name."""
    modules = {
        name: importlib.import_module(name)
        for name in FILES
        if "typer" in (SCRIPTS / f"{name}.py").read_text()
    }
    return {name: module.app for name, module in modules.items() if hasattr(module, "app")}


@pytest.mark.parametrize("name", FILES)
def test_a_script_starts(name):
    if name in apps():
        result = CliRunner().invoke(apps()[name], ["--help"])
        assert result.exit_code == 0, result.output
        assert "--help" in result.output
    else:
        environment = {key: value for key, value in os.environ.items() if key != "PYTHONSAFEPATH"}
        done = subprocess.run(
            [sys.executable, SCRIPTS / f"{name}.py", "--help"],
            capture_output=True,
            text=True,
            env=environment,
        )
        assert done.returncode == 0, done.stderr
        assert "usage" in done.stdout.lower()


@pytest.mark.parametrize("name", sorted(get_command(apps()["benchmark"]).commands))
def test_a_benchmark_starts(name):
    result = CliRunner().invoke(apps()["benchmark"], [name, "--help"])
    assert result.exit_code == 0, result.output
    assert "--help" in result.output
