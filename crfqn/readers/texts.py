"""Texts with labels: 20 Newsgroups, and the docstrings of Python's standard library."""

from __future__ import annotations

import ast
import lzma
import pkgutil
import sys
import sysconfig
import tarfile
import warnings
import zlib
from collections import defaultdict
from collections.abc import Collection, Iterator
from importlib.abc import InspectLoader
from importlib.machinery import ModuleSpec
from pathlib import Path, PurePosixPath

from crfqn.errors import DataError, DataUnavailableError
from crfqn.messages import shorten
from crfqn.readers.labelled_items import Documents
from crfqn.taxonomy.reading import open_taxonomy
from crfqn.taxonomy.tree import LabelTree

NEWSGROUP_PARTS = ("20news-bydate-train", "20news-bydate-test")
NEWSGROUP_ENCODING = "latin-1"  # in which every byte is a character
# Between the parts of a group's name, and of a place in the library.
GROUP_SEPARATOR, PLACE_SEPARATOR = ".", "/"
ARCHIVE_ERRORS = (tarfile.TarError, lzma.LZMAError, zlib.error, EOFError, OSError)
LEFT_OUT = {
    "test": "the library's own tests, which few installations have",
    "tests": "likewise, within packages",
    "idle_test": "likewise",
    "idlelib": "an editor; distributions of Linux ship it apart",
    "tkinter": "windows; shipped apart, too",
    "turtle": "draws in such a window",
    "turtledemo": "likewise",
    "ensurepip": "shipped apart",
    "venv": "shipped apart",
    "distutils": "shipped apart",
    "lib2to3": "shipped apart",
    "msilib": "for Windows only",
    "pydoc_data": "texts, not definitions",
    "encodings": "tables of characters, a quarter of the time for next to no docstrings",
}
MIN_WORDS = 5  # of a docstring that is a document
REST_OF_CLASS = "(other)"  # no valid name in Python, so no class has it
TEST_STEP = 5  # one of so many documents of a label is a test document

Home = tuple[str, ...]


def read_newsgroups(path: str | Path) -> Documents:
    """Read 20 Newsgroups (Lang, *NewsWeeder*, ICML 1995; Rennie's version by date) from `20news-bydate.tar.gz` (.xz,
    .bz2, .tar), in one go and never unpacked to disk: `20news-bydate-train/GROUP/NUMBER` and `-test/`, one post a file.

    Texts keep their headers; training first, each part sorted by group and file name as text (as `load_files` does
    before it shuffles). The taxonomy is `groups_tree`. DataError: a damaged archive, posts elsewhere, a missing
    part.
    """
    posts: dict[tuple[int, str, str], str] = {}  # by part, group and file name
    try:
        with tarfile.open(path, "r|*") as archive:
            for member in archive:
                name = PurePosixPath(member.name)
                content = archive.extractfile(member) if member.isfile() else None
                if content is None or name.name.startswith("."):  # a folder, or what a file manager left
                    continue
                part, group, number = ("", "", "", *name.parts)[-3:]
                if part not in NEWSGROUP_PARTS or not number.isdecimal():
                    raise DataError(
                        f"{path}: expected {' or '.join(NEWSGROUP_PARTS)}, a group and a number, got the file "
                        f"{shorten(str(name))}"
                    )
                posts[NEWSGROUP_PARTS.index(part), group, number] = content.read().decode(NEWSGROUP_ENCODING)
    except FileNotFoundError as error:
        raise DataUnavailableError(f"{path}: no such file") from error
    except ARCHIVE_ERRORS as error:
        raise DataError(f"{path}: not an archive that can be read to its end: {error}") from error
    order = sorted(posts)
    n_train = sum(part == 0 for part, _, _ in order)
    if not 0 < n_train < len(order):
        missing = NEWSGROUP_PARTS[1] if n_train else NEWSGROUP_PARTS[0]
        raise DataError(f"{path}: no posts in {missing}/GROUP/; expected the archive of the version by date")
    labels = [group for _, group, _ in order]
    return Documents([posts[key] for key in order], labels, groups_tree(labels), n_train)


def groups_tree(groups: Collection[str]) -> LabelTree:
    """Return the tree of dotted names, `comp.sys.mac.hardware` under `comp.sys` under `comp`; a beginning that no
    second group shares is no node: `alt.atheism`, the only group of `alt`, is a leaf under the root."""
    names = sorted(set(groups))
    return open_taxonomy(names, names, separator=GROUP_SEPARATOR).collapsed(names)


def collect_docstrings(minimum: int = 8) -> Documents:
    """Collect the docstrings of the standard library's classes, methods and functions with their place in it.

    Sources are listed by `pkgutil` and parsed, never imported: the data is the same in every process of a Python
    version. A label is a path, package/module/Class, of `minimum` docstrings or more; those of a smaller class belong
    to its module, of a smaller module to its package, and too small packages are omitted. Labels are leaves: docstrings
    of `asyncio/streams` and of no label below it have the label `asyncio/streams/(other)`. Texts have five or more
    words; those in several places, such as "See base class.", are omitted. Every fifth of a label, in alphabetical
    order, is for the test; training texts are first. DataUnavailableError if the library has no sources.
    """
    homes: defaultdict[str, set[Home]] = defaultdict(set)
    for module, spec in _modules([sysconfig.get_path("stdlib")], ()):
        source = spec.loader.get_source(spec.name) if isinstance(spec.loader, InspectLoader) else None
        if source is not None:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # about escapes in the sources' strings
                tree = ast.parse(source)
            for home, text in _definitions(tree, module):
                homes[text].add(home)
    texts_of: defaultdict[Home, list[str]] = defaultdict(list)
    for text, (home, *others) in homes.items():
        if not others and len(text.split()) >= MIN_WORDS:
            texts_of[home].append(text)
    labelled = _labelled(texts_of, minimum)
    if not labelled:
        raise DataUnavailableError(
            f"{sysconfig.get_path('stdlib')}: no module has {minimum} docstrings; expected the sources (.py files) of "
            "Python's standard library"
        )
    items = sorted(
        (i % TEST_STEP == TEST_STEP - 1, label, text)
        for label, texts in labelled.items()
        for i, text in enumerate(texts)
    )
    names = sorted(labelled)
    taxonomy = open_taxonomy(names, names, separator=PLACE_SEPARATOR).collapsed(names)
    n_train = sum(not is_test for is_test, _, _ in items)
    return Documents([text for _, _, text in items], [label for _, label, _ in items], taxonomy, n_train)


def _labelled(texts_of: dict[Home, list[str]], minimum: int) -> dict[str, list[str]]:
    """Return sorted texts by label. If a place has fewer than `minimum` texts, they move to the place above."""
    pending = defaultdict(list, {home: list(texts) for home, texts in texts_of.items()})
    texts_by_label: dict[Home, list[str]] = {}
    for length in range(max(map(len, pending), default=0), 0, -1):
        for home in sorted(home for home in pending if len(home) == length):
            if len(pending[home]) >= minimum:
                texts_by_label[home] = sorted(pending[home])
            elif length > 1:
                pending[home[:-1]] += pending[home]
    inner = {home[:length] for home in texts_by_label for length in range(1, len(home))}
    return {
        PLACE_SEPARATOR.join((*home, REST_OF_CLASS) if home in inner else home): texts
        for home, texts in texts_by_label.items()
    }


def _modules(folders: list[str], package: Home) -> Iterator[tuple[Home, ModuleSpec]]:
    """Yield the public modules, in alphabetical order."""
    for module in sorted(pkgutil.iter_modules(folders), key=lambda module: module.name):
        is_foreign = not package and module.name not in sys.stdlib_module_names
        if module.name.startswith("_") or module.name in LEFT_OUT or is_foreign:
            continue
        spec = module.module_finder.find_spec(module.name, None)
        if spec is not None:
            yield (*package, module.name), spec
            if module.ispkg:
                yield from _modules(list(spec.submodule_search_locations or ()), (*package, module.name))


def _definitions(node: ast.AST, home: Home) -> Iterator[tuple[Home, str]]:
    """Yield the docstrings below a module or class with their places; functions within functions are left out."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            is_class = isinstance(child, ast.ClassDef)
            inner = (*home, child.name) if is_class else home
            text = ast.get_docstring(child)
            if text:
                yield inner, text
            if is_class:
                yield from _definitions(child, inner)
        elif isinstance(child, ast.stmt | ast.excepthandler):  # within if, try, with
            yield from _definitions(child, home)
