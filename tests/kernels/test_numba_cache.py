"""Compiled code on disk: kept while no kernel's source changes, compiled again once one does."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import crfqn.kernels

CALLED = """
import numpy as np

from crfqn.kernels import inner, kernel

@inner
def grown(x):
    return x + 1.0

@kernel
def scaled(x):
    return 10.0 * x + np.zeros(3).sum()
"""
CALLER = """
from crfqn.kernels import kernel
from crfqn.kernels.family.called import grown, scaled

@kernel
def both(x):
    return grown(x) + scaled(x)
"""
RUN = """
import sys
from crfqn.kernels.family.caller import both
print(both(2.0), sum(both.stats.cache_hits.values()), sum(both.stats.cache_misses.values()))
print("numba.np.arraymath" in sys.modules)
"""


@pytest.fixture
def copied(tmp_path):
    """The kernels' package alone in a folder, with two more files of kernels in a folder of their own."""
    kernels = tmp_path / "crfqn/kernels"
    kernels.mkdir(parents=True)
    (tmp_path / "crfqn/__init__.py").touch()
    for path in Path(crfqn.kernels.__file__).parent.glob("*.py"):
        shutil.copy(path, kernels)
    (kernels / "family").mkdir()
    for name, source in ("__init__", ""), ("called", CALLED), ("caller", CALLER):
        (kernels / f"family/{name}.py").write_text(source)
    return tmp_path


def run(folder, **environment):
    """What a new process finds: the value, and how often compiled code was found on disk, and how often not."""
    variables = {
        name: value for name, value in os.environ.items() if not name.startswith(("NUMBA_", "PYTHON"))
    }
    found = subprocess.run(
        [sys.executable, "-W", "error", "-c", RUN],
        cwd=folder,
        env={**variables, "PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1", **environment},
        capture_output=True,
        text=True,
        timeout=180,
    )
    assert found.returncode == 0, found.stderr
    value, hits, misses, has_loaded_compiler = found.stdout.split()
    assert (has_loaded_compiler == "True") == (int(misses) > 0)  # its parts are a third of a second
    return float(value), int(hits), int(misses)


def edit(path, old, new):
    source = path.read_text()
    assert source.count(old) == 1
    path.write_text(source.replace(old, new))


def test_an_edit_of_a_kernel_within_another(copied):
    called = copied / "crfqn/kernels/family/called.py"
    assert run(copied) == (23.0, 0, 1)
    for path in called, called.with_name("caller.py"):
        os.utime(path)  # what counts is the content
    assert run(copied) == (23.0, 1, 0)
    edit(called, "x + 1.0", "x + 2.0")
    edit(called, "10.0 * x", "20.0 * x")
    assert run(copied) == (44.0, 0, 1)


def test_a_folder_that_the_user_names(copied, tmp_path_factory):
    elsewhere = tmp_path_factory.mktemp("compiled")
    assert run(copied, NUMBA_CACHE_DIR=str(elsewhere)) == (23.0, 0, 1)
    assert run(copied, NUMBA_CACHE_DIR=str(elsewhere)) == (23.0, 1, 0)
    assert any(elsewhere.rglob("caller.both*.nbc"))
    assert not any(copied.rglob("*.nbc"))


def test_a_folder_that_is_carried_to_another_place(copied, tmp_path_factory):
    """It serves other installations, and is read where nothing can be written."""
    carried = tmp_path_factory.mktemp("carried") / "code"
    assert run(copied, CRFQN_CODE=str(carried)) == (23.0, 0, 1)
    moved = Path(shutil.copytree(copied, tmp_path_factory.mktemp("other") / "package"))
    for path in carried.rglob("*"):
        path.chmod(0o555)
    assert run(moved, CRFQN_CODE=str(carried)) == (23.0, 1, 0)
    assert not any(moved.rglob("*.nbc"))


def test_a_carried_folder_without_the_code_that_is_needed(copied, tmp_path):
    """A file in the folder's place stops an administrator, too."""
    (tmp_path / "code").touch()
    with pytest.raises(AssertionError, match="RuntimeWarning: the folder of CRFQN_CODE has no compiled code"):
        run(copied, CRFQN_CODE=str(tmp_path / "code"))


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have other folders for users' caches")
def test_a_folder_beside_the_source_that_cannot_be_written(copied, tmp_path_factory):
    """It is the user's folder then; a file in place of the folder also stops an administrator."""
    (copied / "crfqn/kernels/family/__pycache__").touch()
    user = tmp_path_factory.mktemp("user")
    assert run(copied, XDG_CACHE_HOME=str(user)) == (23.0, 0, 1)
    assert run(copied, XDG_CACHE_HOME=str(user)) == (23.0, 1, 0)
    assert any(user.rglob("caller.both*.nbc"))


def test_without_compilation(copied):
    script = RUN.splitlines()[2] + "; print(both(2.0), 0, 0)"
    environment = {**os.environ, "PYTHONPATH": str(copied), "NUMBA_DISABLE_JIT": "1"}
    command = [sys.executable, "-W", "error", "-c", script]
    found = subprocess.run(command, cwd=copied, env=environment, capture_output=True, text=True, timeout=180)
    assert found.stdout.split()[0] == "23.0", found.stderr
