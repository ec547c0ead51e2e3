"""What is handed out: a wheel and a source archive, their files, that they install and label; `python -m crfqn`."""

import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

import crfqn

ROOT = Path(__file__).resolve().parents[1]


def build(kind, folder, source=ROOT):
    """Build the `wheel` or the source archive (`sdist`) of a folder of sources; the one file that came."""
    pytest.importorskip("hatchling")
    command = [sys.executable, "-m", "hatchling", "build", "-t", kind, "-d", str(folder)]
    subprocess.run(command, cwd=source, check=True, capture_output=True)
    (file,) = folder.iterdir()
    return file


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    return build("wheel", tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def source_archive(tmp_path_factory):
    return build("sdist", tmp_path_factory.mktemp("sdist"))


def test_wheel_has_licence_and_types(wheel):
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        (licence,) = (name for name in names if name.endswith("/licenses/LICENSE"))
        assert archive.read(licence) == (ROOT / "LICENSE").read_bytes()
        (metadata,) = (name for name in names if name.endswith("/METADATA"))
        assert b"License-Expression: BSD-3-Clause\n" in archive.read(metadata)
        (entry_points,) = (name for name in names if name.endswith("/entry_points.txt"))
        assert b"[pyinstaller40]\nhook-dirs = crfqn:_pyinstaller_hooks\n" in archive.read(entry_points)
    assert {"crfqn/py.typed", "crfqn/__main__.py", "crfqn/_pyinstaller/hook-crfqn.py"} <= {*names}
    assert all(name.split("/")[0].startswith("crfqn") for name in names)


def test_source_archive_has_manual_and_tests(source_archive):
    with tarfile.open(source_archive) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    pages = {f"docs/{page.name}" for page in (ROOT / "docs").glob("*.md")}
    assert len(pages) > 3
    assert pages | {"LICENSE", "CHANGELOG.md", "README.md", "tests/test_distribution.py"} <= names
    assert {"models/digits/recipe.toml", "models/digits/README.md", "data/ocr.toml"} <= names


def test_a_wheel_of_the_source_archive_has_the_same_files(wheel, source_archive, tmp_path):
    with tarfile.open(source_archive) as archive:
        # Python has filters from 3.11.4 on.
        archive.extractall(tmp_path, **({"filter": "data"} if hasattr(tarfile, "data_filter") else {}))
    (unpacked,) = tmp_path.iterdir()
    (tmp_path / "built").mkdir()
    again = build("wheel", tmp_path / "built", unpacked)
    assert _contents(again) == _contents(wheel)


def _contents(wheel):
    with zipfile.ZipFile(wheel) as archive:
        return {entry.filename: entry.CRC for entry in archive.infolist()}


MODEL = """version: 100
cost-factor: 1
maxid: 8
xsize: 1

N
V

U00:%x[0,0]
B

0 U00:dog
2 U00:runs
4 B

2.0
-1.0
-1.5
1.5
0
0.5
0.25
0
"""


def test_an_installed_wheel_labels(wheel, tmp_path):
    """Beside the libraries that are here, and outside of the checkout; a model of CRF++ needs no training."""
    pytest.importorskip("pip")
    target = tmp_path / "installed"
    install = ["pip", "install", "--quiet", "--no-deps", "--no-index", "--target", str(target), str(wheel)]
    subprocess.run([sys.executable, "-m", *install], check=True, capture_output=True, cwd=tmp_path)
    (tmp_path / "model.txt").write_text(MODEL)

    def run(*words, given=None):
        environment = {**os.environ, "PYTHONPATH": str(target)}
        environment.pop("PYTHONSAFEPATH", None)
        command = [sys.executable, *words]
        options = {"cwd": tmp_path, "env": environment, "input": given, "text": True}
        return subprocess.run(command, check=True, capture_output=True, **options).stdout

    assert run("-c", "import crfqn; print(crfqn.__file__)").startswith(str(target))
    run("-m", "crfqn", "convert", "model.txt", "model.crfqn")
    assert run("-m", "crfqn", "predict", "model.crfqn", given="dog\nruns\n").split() == ["N", "V"]


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
