"""Labelling without most of crfqn's requirements: where they are not installed, and in a frozen program."""

import os
import subprocess
import sys
import tomllib
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import numpy as np
import pytest
from packaging.requirements import Requirement

import crfqn
from crfqn.data.model_file import write_model
from crfqn.model.content import Entries, chain_file

ROOT = Path(__file__).resolve().parents[1]
LABELLING = ("numpy", "safetensors", "lazy-loader")


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """A chain over three features with labels A and B, the second for f1."""
    weights = Entries(np.array([1.0, 2.0, 1.0]), np.arange(3), np.array([0, 1, 0]))
    edges = Entries(np.zeros(4), *np.divmod(np.arange(4), 2))
    file = chain_file("", ["A", "B"], ["f0", "f1", "f2"], weights, edges, extra={})
    path = tmp_path_factory.mktemp("few") / "model.crfqn"
    write_model(path, file.kind, file.arrays, file.strings, file.metadata)
    return path


def environment(folder, *names):
    """Link crfqn, packages and what they require into a folder that is all that Python finds beside itself."""
    folder.mkdir()
    (folder / "crfqn").symlink_to(Path(crfqn.__file__).parent)
    missing, done = [*names], set()
    while missing:
        name = missing.pop()
        if name in done:
            continue
        done.add(name)
        try:
            package = distribution(name)
        except PackageNotFoundError:
            pytest.skip(f"{name} is not installed")
        required = [Requirement(text) for text in package.requires or ()]
        missing += [
            each.name for each in required if each.marker is None or each.marker.evaluate({"extra": ""})
        ]
        roots = {file.parts[0] for file in package.files or ()} - {"..", "__pycache__"}
        for root in roots - {entry.name for entry in folder.iterdir()}:
            (folder / root).symlink_to(package.locate_file(root))
    return {"PYTHONPATH": str(folder), "PATH": os.environ.get("PATH", "")}


def run(found, *words, given=None):
    command = [sys.executable, "-S", *map(str, words)]
    return subprocess.run(command, env=found, input=given, text=True, capture_output=True)


TAG = "import sys; from crfqn import Tagger; print(Tagger(sys.argv[1]).tag([['f0'], ['f1']]))"
CHECK = (
    "import importlib.util as u; print([n for n in ('typer', 'scipy', 'numba', 'sklearn') if u.find_spec(n)])"
)


def test_a_tagger_needs_three_packages_and_the_command_says_what_it_lacks(model, tmp_path):
    found = environment(tmp_path / "site", *LABELLING)
    assert run(found, "-c", CHECK).stdout == "[]\n"
    tagged = run(found, "-c", TAG, model)
    assert (tagged.stdout, tagged.stderr) == ("['A', 'B']\n", "")
    predicted = run(found, "-m", "crfqn", "predict", model, given="f0\nf1\n")
    assert (predicted.returncode, predicted.stdout) == (2, "")
    assert predicted.stderr.startswith("crfqn: the module 'typer' is not installed: pip install crfqn")
    assert "Traceback" not in predicted.stderr


def test_the_command_labels_with_typer_as_well(model, tmp_path):
    found = environment(tmp_path / "site", *LABELLING, "typer")
    assert run(found, "-c", CHECK).stdout == "['typer']\n"
    predicted = run(found, "-m", "crfqn", "predict", model, given="A\tf0\nB\tf1\n")
    assert (predicted.returncode, predicted.stdout.split()) == (0, ["A", "B"]), predicted.stderr
    trained = run(found, "-m", "crfqn", "train", "digits")
    assert trained.returncode == 2
    assert trained.stderr.startswith("crfqn: the module "), trained.stderr
    assert "is not installed" in trained.stderr


def test_the_page_names_the_packages():
    page = (ROOT / "docs" / "production.md").read_text(encoding="utf-8")
    assert f"pip install {' '.join(LABELLING)}\n" in page


PROGRAM = """
import sys

from crfqn import Tagger

print(Tagger(sys.argv[1]).tag([["f0"], ["f1"]]))
"""


def test_a_frozen_program_labels(model, tmp_path):
    """Built with the hook of this package, which an installed one gives by the entry point."""
    pytest.importorskip("PyInstaller")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["entry-points"]["pyinstaller40"] == {"hook-dirs": "crfqn:_pyinstaller_hooks"}
    (hooks,) = crfqn._pyinstaller_hooks()
    (tmp_path / "program.py").write_text(PROGRAM)
    options = ["--log-level", "ERROR", "--noconfirm", "--additional-hooks-dir", hooks]
    build = [sys.executable, "-m", "PyInstaller", *options, "program.py"]
    subprocess.run(build, cwd=tmp_path, check=True, capture_output=True)
    folder = tmp_path / "dist" / "program"
    tagged = subprocess.run([folder / "program", model], env={}, text=True, capture_output=True)
    assert (tagged.stdout, tagged.stderr) == ("['A', 'B']\n", "")
    names = {path.name for path in (folder / "_internal").iterdir()}
    assert "numpy" in names
    assert not names & {"numba", "llvmlite", "scipy", "sklearn", "pandas", "joblib"}
