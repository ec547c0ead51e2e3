"""The docstrings of the standard library: a dataset that is everywhere, the same in every process."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from collections import Counter
from pathlib import Path

import pytest

from crfqn.errors import DataUnavailableError
from crfqn.readers.texts import LEFT_OUT, MIN_WORDS, collect_docstrings

SCRIPT = """
import sys
from crfqn.readers.texts import collect_docstrings
import networkx
loaded = set(sys.modules)
sys.path.insert(0, ".")
print(collect_docstrings().digest(), *sorted(set(sys.modules) - loaded))
"""


@pytest.fixture(scope="module")
def documents(standard_library):
    return standard_library


def test_sizes(documents):
    assert documents.n_items > 3500
    assert len(documents.distinct_labels()) > 150
    assert {"asyncio", "logging", "xml"} <= set(documents.taxonomy.names)
    assert documents.taxonomy.depths.max() >= 2


def test_labels_are_the_leaves(documents):
    tree = documents.taxonomy
    assert sorted(tree.names[k] for k in tree.leaves) == documents.distinct_labels()
    assert not any(part in LEFT_OUT or part == "" for name in tree.names for part in name.split("/"))
    parents = [tree.names[p] for p in tree.parents if p >= 0]
    children = [name for name, p in zip(tree.names, tree.parents, strict=True) if p >= 0]
    assert all(child.startswith(f"{parent}/") for parent, child in zip(parents, children, strict=True))
    assert min(Counter(parents).values()) >= 2


def test_every_label_is_in_both_parts(documents):
    train, test = (
        Counter(part)
        for part in (documents.labels[: documents.n_train], documents.labels[documents.n_train :])
    )
    assert set(train) == set(test)
    assert all(test[label] == (train[label] + test[label]) // 5 for label in train)
    assert min((train + test).values()) >= 8
    assert documents.labels[: documents.n_train] == sorted(documents.labels[: documents.n_train])


def test_texts_are_distinct_and_long_enough(documents):
    assert len(set(documents.inputs)) == documents.n_items
    assert min(len(text.split()) for text in documents.inputs) == MIN_WORDS
    assert not any(text.startswith((" ", "\n")) for text in documents.inputs)


def test_every_process_collects_the_same_and_imports_nothing(documents, tmp_path):
    """Whatever the locale, the order of hashes, and the level of optimisation."""
    (tmp_path / "mailbox.py").write_text("raise SystemExit('imported')\n")
    (tmp_path / "queue").mkdir()
    environment = {**os.environ, "PYTHONHASHSEED": "7", "TZ": "Asia/Tokyo", "LC_ALL": "C"}
    command = [sys.executable, "-P", "-OO", "-X", "utf8=0", "-W", "error::SyntaxWarning", "-c", SCRIPT]
    run = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=environment, check=False)
    assert run.stderr == ""
    digest, *imported = run.stdout.split()
    assert digest == documents.digest()
    assert not {name.split(".")[0] for name in imported} & sys.stdlib_module_names


def numbered(n: int, start: int = 0) -> str:
    """Functions with docstrings of five words."""
    return "".join(f'def f{i}():\n    """Five words number {i} here."""\n\n' for i in range(start, start + n))


@pytest.fixture
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Writes a small standard library and puts it into the place of the real one."""

    def write(files: dict[str, str]) -> None:
        for name, text in files.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)

    monkeypatch.setattr(sysconfig, "get_path", lambda name: str(tmp_path))
    monkeypatch.setattr(sys, "stdlib_module_names", frozenset({"one", "two", "small", "_own", "test"}))
    return write


def test_what_is_collected(library):
    source = '''"""A docstring of the module is not collected."""
class Large:
    """The large class explains itself."""
    if True:
        def one(self):
            """
            Within a condition it counts.

                And its indentation is removed.
            """
            def inner():
                """Functions within functions do not count."""
    try:
        async def two(self):
            """Within a try it counts."""
    except ValueError:
        def two(self):
            """Within an except it counts."""
    class Nested:
        """A nested class has few texts."""
    def three(self):
        """Four words only: no."""
    def four(self):
        """These words stand in two classes."""
    def five(self):
        """These words come twice in one."""
    def five_again(self):
        """These words come twice in one."""
class Small:
    def four(self):
        """These words stand in two classes."""
    def six(self):
        """This class has one text."""
'''
    library({"one.py": source})
    documents = collect_docstrings(minimum=1)
    found = dict(zip(documents.inputs, documents.labels, strict=True))
    own = "one/Large/(other)"
    assert found == {
        "The large class explains itself.": own,
        "Within a condition it counts.\n\n    And its indentation is removed.": own,
        "Within a try it counts.": own,
        "Within an except it counts.": own,
        "These words come twice in one.": own,
        "A nested class has few texts.": "one/Large/Nested",
        "This class has one text.": "one/Small",
    }
    documents = collect_docstrings(minimum=2)
    assert Counter(documents.labels) == {"one/Large": 6}  # Small's one text is too few, in its module too
    documents = collect_docstrings(minimum=7)
    assert Counter(documents.labels) == {"one": 7}


def test_small_classes_and_modules_count_for_what_is_above(library):
    def large_class(n: int, start: int) -> str:
        return f"class Large{start}:\n    " + numbered(n, start).rstrip().replace("\n", "\n    ") + "\n"

    library(
        {
            "one/__init__.py": numbered(2, 0),
            "one/first.py": numbered(1, 10) + large_class(6, 20),
            "one/second.py": numbered(5, 30),
            "two.py": large_class(5, 40),
            "small.py": numbered(4, 50),
            "_own.py": numbered(9, 60),
            "one/_own.py": numbered(9, 70),
            "one/tests/__init__.py": numbered(9, 80),
            "test/__init__.py": numbered(9, 90),
            "foreign.py": numbered(9, 100),
        }
    )
    documents = collect_docstrings(minimum=5)
    assert Counter(documents.labels) == {"one/first/Large20": 6, "one/second": 5, "two/Large40": 5}
    documents = collect_docstrings(minimum=3)
    assert Counter(documents.labels) == {
        "one/(other)": 3, "one/first/Large20": 6, "one/second": 5, "two/Large40": 5, "small": 4,
    }  # fmt: skip
    assert set(documents.taxonomy.names) == {*documents.labels, "one"}
    assert documents.labels[documents.n_train :] == ["one/first/Large20", "one/second", "two/Large40"]
    assert documents.inputs[documents.n_train] == "Five words number 24 here."


@pytest.mark.parametrize(
    "files",
    [{}, {"foreign.py": numbered(9)}, {"one.py": numbered(7)}, {"one.py": 'def f():\n    """One."""'}],
)
def test_a_library_without_sources_or_with_too_few_texts(library, files):
    library(files)
    with pytest.raises(
        DataUnavailableError, match=r"no module has 8 docstrings; expected the sources \(.py files\)"
    ):
        collect_docstrings()
