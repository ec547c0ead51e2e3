"""The examples in docstrings run and print what they say, in every module; the files that docstrings name exist."""

import doctest
import importlib
import re
from pathlib import Path

import pytest

import crfqn

FOLDER, CHECKOUT = Path(crfqn.__file__).parent, Path(__file__).resolve().parents[1]
MODULES = sorted(
    ".".join(path.relative_to(FOLDER.parent).with_suffix("").parts).removesuffix(".__init__")
    for path in FOLDER.rglob("*.py")
    if ">>> " in path.read_text(encoding="utf-8")
)


@pytest.mark.parametrize("name", MODULES)
def test_examples_of_docstrings(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # where some write a file
    finder = doctest.DocTestFinder(exclude_empty=True)
    tests = [test for test in finder.find(importlib.import_module(name), name) if test.examples]
    assert tests
    output = []
    for test in tests:
        assert doctest.DocTestRunner().run(test, out=output.append).failed == 0, "".join(output)


@pytest.mark.parametrize("path", sorted(FOLDER.rglob("*.py")), ids=lambda path: str(path.relative_to(FOLDER)))
def test_files_that_docstrings_name_exist(path):
    for name in re.findall(r"`([\w/]+\.(?:py|md))`", path.read_text(encoding="utf-8")):
        places = [path.parent, FOLDER, CHECKOUT] if "/" in name else FOLDER.rglob("")
        assert any((place / name).is_file() for place in places), name
