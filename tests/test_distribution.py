"""What is handed out: the files of a wheel and of a source archive, and `python -m crfqn`."""

import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

import crfqn

ROOT = Path(__file__).resolve().parents[1]


def build(kind, folder):
    """Build the `wheel` or the source archive (`sdist`) of the checkout; the one file that came."""
    pytest.importorskip("hatchling")
    command = [sys.executable, "-m", "hatchling", "build", "-t", kind, "-d", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (file,) = folder.iterdir()
    return file


def test_wheel_has_licence_and_types(tmp_path):
    with zipfile.ZipFile(build("wheel", tmp_path)) as archive:
        names = archive.namelist()
        (licence,) = (name for name in names if name.endswith("/licenses/LICENSE"))
        assert archive.read(licence) == (ROOT / "LICENSE").read_bytes()
        (metadata,) = (name for name in names if name.endswith("/METADATA"))
        assert b"License-Expression: BSD-3-Clause\n" in archive.read(metadata)
    assert {"crfqn/py.typed", "crfqn/__main__.py"} <= {*names}
    assert all(name.split("/")[0].startswith("crfqn") for name in names)


def test_source_archive_has_manual_and_tests(tmp_path):
    with tarfile.open(build("sdist", tmp_path)) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    pages = {f"docs/{page.name}" for page in (ROOT / "docs").glob("*.md")}
    assert len(pages) > 3
    assert pages | {"LICENSE", "CHANGELOG.md", "README.md", "tests/test_distribution.py"} <= names
    assert {"models/digits/recipe.toml", "models/digits/README.md", "data/ocr.toml"} <= names


BASE = """
import sys

for name in {extras}:
    sys.modules[name] = None  # as if it were not installed

from crfqn import *
import crfqn
assert {{*crfqn.__all__}} <= {{*globals()}}
"""


def test_every_public_name_without_the_extras():
    extras = {"jinja2", "markupsafe", "matplotlib", "onnx", "pandas", "pyarrow", "zstandard"}
    command = [sys.executable, "-c", BASE.format(extras=extras)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_python_m_crfqn():
    command = [sys.executable, "-W", "error", "-m", "crfqn", "--version"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == f"crfqn {crfqn.__version__}\n"


def test_changelog_names_the_version():
    assert crfqn.__version__ in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
