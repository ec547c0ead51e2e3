"""Docstrings of Python's standard library, by their place: a text classification task that is on every machine.

The sources of the running interpreter's library are listed by `pkgutil` and parsed; nothing is imported, so that
nothing opens a window, prints, warns or depends on what the process has done before. The data is the same in
every process of one Python version. A label is a path, package/module/Class, its taxonomy the tree of these paths.
"""

from __future__ import annotations

import ast
import pkgutil
import sys
import sysconfig
import warnings
from collections import defaultdict
from collections.abc import Iterator
from importlib.abc import InspectLoader
from importlib.machinery import ModuleSpec

from crfqn.errors import DataUnavailableError
from crfqn.readers.documents import Documents
from crfqn.taxonomy.reading import open_taxonomy

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
FEWEST_WORDS = 5
SEPARATOR = "/"
REST = "(other)"  # no name of Python's, so it cannot be one's of a class
TEST_STEP = 5

Home = tuple[str, ...]


def collect_docstrings(fewest: int = 8) -> Documents:
    """Collect the docstrings of classes, methods and functions with the place of their definition.

    Parameters
    ----------
    fewest : int
        Docstrings that a label has at least. Those of a smaller class count for its module, those of a smaller
        module for its package; what is still too few at the top is left out.

    Returns
    -------
    Documents
        Texts of five words or more, indentation removed (`inspect.cleandoc`), each text once. Labels are leaves of
        the taxonomy: what belongs to `asyncio/streams` and to no label below it has the label
        `asyncio/streams/(other)`. Every fifth text of a label, in alphabetical order, is for the test; training
        texts come first.

    Raises
    ------
    DataUnavailableError
        The standard library comes without its sources, or no module of it has so many docstrings.

    Notes
    -----
    Texts that occur in several places (such as "See base class.") say nothing about theirs, and are left out.
    """
    labelled = _labelled(_texts_by_home(), fewest)
    if not labelled:
        raise DataUnavailableError(
            f"{sysconfig.get_path('stdlib')}: no module has {fewest} docstrings; expected the sources (.py files) of "
            "Python's standard library"
        )
    items = sorted(
        (_is_test(i), label, text) for label, texts in labelled.items() for i, text in enumerate(texts)
    )
    labels = sorted(labelled)
    return Documents(
        inputs=[text for _, _, text in items],
        labels=[label for _, label, _ in items],
        taxonomy=open_taxonomy(labels, labels, separator=SEPARATOR).collapsed(labels),
        n_train=sum(not is_test for is_test, _, _ in items),
    )


def _texts_by_home() -> dict[Home, list[str]]:
    """Return the texts that are long enough and occur at one place only, by their place."""
    homes: defaultdict[str, set[Home]] = defaultdict(set)
    for module, source in _sources():
        for home, text in _definitions(_parsed(source), module):
            homes[text].add(home)
    texts_of: defaultdict[Home, list[str]] = defaultdict(list)
    for text, (home, *others) in homes.items():
        if not others and len(text.split()) >= FEWEST_WORDS:
            texts_of[home].append(text)
    return texts_of


def _is_test(position: int) -> bool:
    return position % TEST_STEP == TEST_STEP - 1


def _labelled(texts_of: dict[Home, list[str]], fewest: int) -> dict[str, list[str]]:
    """Return sorted texts by label; places with too few texts give them to the place above."""
    pending = defaultdict(list, {home: list(texts) for home, texts in texts_of.items()})
    kept: dict[Home, list[str]] = {}
    for length in range(max(map(len, pending), default=0), 0, -1):
        for home in sorted(home for home in pending if len(home) == length):
            if len(pending[home]) >= fewest:
                kept[home] = sorted(pending[home])
            elif length > 1:
                pending[home[:-1]] += pending[home]
    inner = {home[:length] for home in kept for length in range(1, len(home))}
    return {SEPARATOR.join((*home, REST) if home in inner else home): texts for home, texts in kept.items()}


def _sources() -> Iterator[tuple[Home, str]]:
    """Yield names and sources of the public modules, in alphabetical order."""
    for name, spec in _modules([sysconfig.get_path("stdlib")], ()):
        source = spec.loader.get_source(spec.name) if isinstance(spec.loader, InspectLoader) else None
        if source is not None:
            yield name, source


def _modules(folders: list[str], package: Home) -> Iterator[tuple[Home, ModuleSpec]]:
    for found in sorted(pkgutil.iter_modules(folders), key=lambda found: found.name):
        is_foreign = not package and found.name not in sys.stdlib_module_names
        if found.name.startswith("_") or found.name in LEFT_OUT or is_foreign:
            continue
        spec = found.module_finder.find_spec(found.name, None)
        if spec is not None:
            yield (*package, found.name), spec
            if found.ispkg:
                yield from _modules(list(spec.submodule_search_locations or ()), (*package, found.name))


def _parsed(source: str) -> ast.Module:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of escapes in somebody else's strings
        return ast.parse(source)


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
