"""The layers of the library: imports only go down, kernels stay plain, and `import crfqn` stays cheap.

Every import statement counts, at module level, within functions and under `if TYPE_CHECKING`: a type is
knowledge too, so a solver may not even name a concrete objective. Type-only imports differ in one thing: they
do not count as cycles, since they never run.
"""

from __future__ import annotations

import ast
import graphlib
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

import crfqn

PACKAGE = Path(crfqn.__file__).parent
LAYERS = [
    {"errors", "wording", "threads", "kernels"},
    {"columns", "features", "structures", "penalties", "result"},
    {"objectives"},
    {"solvers"},
    {"label_tree", "path_labels", "taxonomies", "metrics"}
    | {
        "sequences",
        "encoding",
        "labels",
        "estimators",
        "readers",
        "datasets",
        "download",
        "bundled",
        "pixels",
        "windows",
        "paths",
    }
    | {"model_file", "whole_file", "vocabulary", "progress"},
    {"recipes", "recipe_schema", "cli", "__main__"},
]
LAYER_OF = {name: layer for layer, names in enumerate(LAYERS) for name in names}
SOLVERS_MAY_IMPORT = {"solvers", "result", "kernels", "errors"}
# What lies below the estimators depends on nothing heavier than this; the layers above may use anything.
LIBRARIES = [{"numpy", "numba", "llvmlite"}, {"numpy", "networkx"}, {"numpy", "scipy"}, {"numpy", "scipy"}]
PACKAGE_ROOT = ""  # the name under which `import crfqn` itself is recorded
HEAVY = ("numba", "sklearn", "scipy")
MOST_SECONDS = 0.7


@dataclass(frozen=True)
class Import:
    """One import statement's target: a dotted name, and how it is reached."""

    module: str
    line: int
    runs_on_import: bool


def module_name(path: Path) -> str:
    """The name of a source file below the package, such as `kernels.chain`."""
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


SOURCES = {module_name(path): path for path in sorted(PACKAGE.rglob("*.py"))}


def find_imports(tree: ast.AST, package: str, is_lazy: bool = False) -> Iterator[Import]:
    """All imports below a node as absolute names; `is_lazy` inside functions and TYPE_CHECKING blocks."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Import):
            yield from (Import(alias.name, node.lineno, not is_lazy) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            for alias in node.names:
                # `from crfqn import features` and `from crfqn.solvers import minimize` name modules, too.
                full = f"{base}.{alias.name}"
                is_module = full.removeprefix("crfqn.") in SOURCES
                yield Import(full if is_module else base, node.lineno, not is_lazy)
        else:
            is_function = isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))
            is_typing = isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)
            yield from find_imports(node, package, is_lazy or is_function or is_typing)


def imports_of(name: str, source: str) -> list[Import]:
    is_package = SOURCES.get(name, Path()).name == "__init__.py"
    full = f"crfqn.{name}" if name else "crfqn"
    return list(find_imports(ast.parse(source), full if is_package else full.rpartition(".")[0]))


def breaches(name: str, source: str) -> list[str]:
    """What a module's imports do against the table, in words."""
    own = name.split(".")[0]
    if own not in LAYER_OF:
        return [f"{name}: this module stands in no layer"]
    layer, found = LAYER_OF[own], []
    for entry in imports_of(name, source):
        where = f"{name}:{entry.line} imports {entry.module}"
        top, _, rest = entry.module.partition(".")
        if top == "crfqn":
            # The package itself hands out estimators, so only their layer and above may ask it for anything.
            target = rest.split(".")[0]
            target_layer = LAYER_OF.get(target, LAYER_OF["estimators"] if target == PACKAGE_ROOT else 99)
            if target_layer > layer:
                found.append(f"{where}, which is above layer {layer}")
            elif own == "solvers" and target not in SOLVERS_MAY_IMPORT:
                found.append(f"{where}: a solver knows only {sorted(SOLVERS_MAY_IMPORT)}")
        elif layer < len(LIBRARIES) and top not in LIBRARIES[layer] | sys.stdlib_module_names:
            found.append(f"{where}: layer {layer} uses only {sorted(LIBRARIES[layer])}")
    return found


@pytest.mark.parametrize("name", [name for name in SOURCES if name])
def test_imports_only_go_down(name):
    assert not breaches(name, SOURCES[name].read_text(encoding="utf-8"))


def test_the_table_names_nothing_that_is_gone():
    assert set(LAYER_OF) == {name.split(".")[0] for name in SOURCES if name}


def test_modules_do_not_import_each_other_in_circles():
    graph: dict[str, set[str]] = {}
    for name, path in SOURCES.items():
        targets = {
            entry.module.removeprefix("crfqn").removeprefix(".")
            for entry in imports_of(name, path.read_text(encoding="utf-8"))
            if entry.runs_on_import and entry.module.split(".")[0] == "crfqn"
        }
        graph[name] = targets - {PACKAGE_ROOT}
    list(graphlib.TopologicalSorter(graph).static_order())


@pytest.mark.parametrize(
    ("name", "source", "message"),
    [
        ("solvers.new", "from crfqn.data.features import FeatureStore", "a solver knows only"),
        ("solvers.new", "from problems import make_likelihood", "a solver knows only"),
        ("solvers.new", "from crfqn import penalties", "a solver knows only"),
        ("solvers.new", "def f():\n    import crfqn.structures.chain", "a solver knows only"),
        ("solvers.new", "if TYPE_CHECKING:\n    from crfqn.objectives.crf import Point", "a solver knows only"),
        ("solvers.new", "from crfqn.estimators.base import SparseCRF", "above layer 3"),
        ("solvers.new", "from crfqn import ChainCRF", "above layer 3"),
        ("solvers.new", "import sklearn.linear_model", "uses only"),
        ("kernels.new", "from ..features import FeatureStore", "above layer 0"),
        ("features", "try:\n    import scipy.sparse\nexcept ImportError:\n    pass", "uses only"),
        ("estimators.new", "from crfqn.cli.app import main", "above layer 4"),
        ("objectives.new", "from crfqn.unheard_of import anything", "above layer 2"),
        ("unheard_of", "", "stands in no layer"),
    ],
)  # fmt: skip
def test_a_breach_is_seen(name, source, message):
    assert [message in breach for breach in breaches(name, source)] == [True]


# How compiled code is kept, and how threads are started for it.
AROUND_KERNELS = {"kernels.disk_cache", "kernels.team"}


@pytest.mark.parametrize(
    "name", [name for name in SOURCES if name.startswith("kernels.") and name not in AROUND_KERNELS]
)
def test_kernels_hold_no_classes_exceptions_or_prints(name):
    """But NamedTuples, in which the state of kernels travels."""
    tree = ast.parse(SOURCES[name].read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            assert [ast.unparse(base) for base in node.bases] == ["NamedTuple"], f"line {node.lineno}"
        assert not isinstance(node, (ast.Raise, ast.Try, ast.Assert)), f"line {node.lineno}"
        assert not (isinstance(node, ast.Name) and node.id == "print"), f"line {node.lineno}"


class TestImportingThePackage:
    SCRIPT = (
        "import time, sys; start = time.perf_counter(); import crfqn; seconds = time.perf_counter() - start;"
        "print(seconds, *(name for name in {heavy} if name in sys.modules))"
    )

    def run(self, *flags: str) -> list[str]:
        command = [sys.executable, *flags, "-c", self.SCRIPT.format(heavy=HEAVY)]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()

    def test_it_is_cheap(self):
        runs = [self.run() for _ in range(3)]
        assert min(float(seconds) for seconds, *_ in runs) < MOST_SECONDS
        assert all(loaded == [] for _, *loaded in runs)

    def test_every_public_name_is_there(self):
        assert {"ChainCRF", "Sequences", "load"} <= set(dir(crfqn))
        assert all(getattr(crfqn, name) is not None for name in crfqn.__all__)
        with pytest.raises(AttributeError, match="unheard_of"):
            crfqn.unheard_of  # noqa: B018
