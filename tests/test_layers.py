"""The layers of the library: imports only go down, never in circles, kernels stay plain, and `import crfqn` is cheap.

Every import statement counts, at module level, within functions and under `if TYPE_CHECKING`: a type is
knowledge too, so a solver may not even name a concrete objective, and a circle of which one side is only
imported when a function runs is a circle still.
"""

from __future__ import annotations

import ast
import graphlib
import importlib
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

import crfqn

PACKAGE = Path(crfqn.__file__).parent
LAYERS = [
    {"errors", "arrays", "threads", "kernels", "messages", "atomic_write", "parameters"},
    {"data", "structures", "taxonomy", "penalties", "projections", "result"},
    {"objectives"},
    {"solvers"},
    {
        "estimators",
        "regularization_path",
        "readers",
        "datasets",
        "metrics",
        "progress",
        "interchange",
        "compat",
    },
    {"cli", "plot", "recipes", "report", "__main__"},
]
LAYER_OF = {name: layer for layer, names in enumerate(LAYERS) for name in names}
# Mathematics only: of objectives the protocols, and neither features nor structures nor penalties; what a method keeps
# over the items (`STATES`) may know all of them.
SOLVERS_MAY_IMPORT = {
    "solvers", "result", "kernels", "arrays", "errors", "objectives.protocols", "objectives.registry"
}  # fmt: skip
STATES = {
    "solvers.coordinate.feature_bcd_state", "solvers.coordinate.row_state",
    "solvers.dual.decomposition_state", "solvers.dual.fbpd_state", "solvers.dual.frank_wolfe_state",
    "solvers.stochastic.state",
}  # fmt: skip
# What lies below the estimators depends on nothing heavier than this; the layers above may use anything.
LIBRARIES = [{"numpy", "numba", "llvmlite"}, {"numpy", "scipy"}, {"numpy", "scipy"}, {"numpy", "scipy"}]
OF_ONE_FAMILY = {"taxonomy": {"networkx"}}
OF_ONE_FILE = {"data.model_file": {"safetensors"}}
PACKAGE_ROOT = ""  # the name under which `import crfqn` itself is recorded
HEAVY = (
    "numpy",
    "numba",
    "networkx",
    "pandas",
    "jinja2",
    "matplotlib",
    "pooch",
    "rich",
    "scipy",
    "sklearn",
    "typer",
)


@dataclass(frozen=True)
class Import:
    """One import statement's target: a dotted name, and how it is reached."""

    module: str
    line: int


def module_name(path: Path) -> str:
    """The name of a source file below the package, such as `kernels.chain`."""
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


SOURCES = {module_name(path): path for path in sorted(PACKAGE.rglob("*.py"))}


def find_imports(tree: ast.AST, package: str) -> Iterator[Import]:
    """All imports below a node as absolute names."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Import):
            yield from (Import(alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            for alias in node.names:
                # `from crfqn import features` and `from crfqn.solvers import minimize` name modules, too.
                full = f"{base}.{alias.name}"
                is_module = full.removeprefix("crfqn.") in SOURCES
                yield Import(full if is_module else base, node.lineno)
        else:
            yield from find_imports(node, package)


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
            elif own == "solvers" and name not in STATES and not {target, rest} & SOLVERS_MAY_IMPORT:
                found.append(f"{where}: a solver knows only {sorted(SOLVERS_MAY_IMPORT)}")
        elif layer < len(LIBRARIES):
            libraries = LIBRARIES[layer] | OF_ONE_FAMILY.get(own, set()) | OF_ONE_FILE.get(name, set())
            if top not in libraries | sys.stdlib_module_names:
                found.append(f"{where}: {own} uses only {sorted(libraries)}")
    return found


@pytest.mark.parametrize("name", [name for name in SOURCES if name])
def test_imports_only_go_down(name):
    assert not breaches(name, SOURCES[name].read_text(encoding="utf-8"))


def test_the_table_names_nothing_that_is_gone():
    assert set(LAYER_OF) == {name.split(".")[0] for name in SOURCES if name}


def graph_of(sources: dict[str, str]) -> dict[str, set[str]]:
    """Which modules of the package each of its modules imports."""
    graph: dict[str, set[str]] = {}
    for name, source in sources.items():
        targets = {entry.module for entry in imports_of(name, source)}
        ours = {target.removeprefix("crfqn.") for target in targets if target.startswith("crfqn.")}
        graph[name] = ours
    return graph


def test_modules_do_not_import_each_other_in_circles():
    sources = {name: path.read_text(encoding="utf-8") for name, path in SOURCES.items()}
    list(graphlib.TopologicalSorter(graph_of(sources)).static_order())


@pytest.mark.parametrize(
    "lazy",
    ["import crfqn.new", "def f():\n    import crfqn.new", "if TYPE_CHECKING:\n    from crfqn.new import A"],
)
def test_a_circle_is_seen(lazy):
    graph = graph_of({"new": "from crfqn.old import B", "old": lazy})
    with pytest.raises(graphlib.CycleError):
        list(graphlib.TopologicalSorter(graph).static_order())


@pytest.mark.parametrize(
    ("name", "source", "message"),
    [
        ("solvers.new", "from crfqn.data.features import FeatureStore", "a solver knows only"),
        ("solvers.new", "from ..objectives.objective import Objective", "a solver knows only"),
        ("solvers.new", "from crfqn import penalties", "a solver knows only"),
        ("solvers.new", "def f():\n    import crfqn.structures.chain", "a solver knows only"),
        ("solvers.new", "if TYPE_CHECKING:\n    from crfqn.objectives.point import Point", "a solver knows only"),
        ("solvers.new", "from crfqn.objectives import protocols, point", "a solver knows only"),
        ("solvers.new", "from crfqn.estimators.base import SparseCRF", "above layer 3"),
        ("solvers.new", "from crfqn import ChainCRF", "above layer 3"),
        ("solvers.new", "import sklearn.linear_model", "uses only"),
        ("kernels.new", "from ..data.features import FeatureStore", "above layer 0"),
        ("data.new", "try:\n    import sklearn\nexcept ImportError:\n    pass", "uses only"),
        ("data.new", "import networkx", "uses only"),
        ("taxonomy.new", "from crfqn.readers.conll import read", "above layer 1"),
        ("estimators.new", "from crfqn.cli.app import main", "above layer 4"),
        ("objectives.new", "from crfqn.unheard_of import anything", "above layer 2"),
        ("unheard_of", "", "stands in no layer"),
    ],
)  # fmt: skip
def test_a_breach_is_seen(name, source, message):
    assert [message in breach for breach in breaches(name, source)] == [True]


# How code is compiled and kept, how threads are started for it, and a type that numba has to be told about.
AROUND_KERNELS = {f"kernels.{name}" for name in ("numba_internals", "thread_group")}


def is_kernel(name: str) -> bool:
    """Whether a module holds compiled code: below `kernels`, or beside the one method that it is for."""
    return name.startswith("kernels.") or name.endswith("_kernels")


def is_record(node: ast.ClassDef) -> bool:
    """Whether a class is arrays and numbers under names, which numba passes as a tuple: it has no code."""
    is_tuple = [ast.unparse(base) for base in node.bases] == ["NamedTuple"]
    return is_tuple and all(isinstance(part, (ast.AnnAssign, ast.Expr)) for part in node.body)


@pytest.mark.parametrize("name", [name for name in SOURCES if is_kernel(name) and name not in AROUND_KERNELS])
def test_kernels_hold_no_classes_but_records_no_exceptions_and_no_prints(name):
    tree = ast.parse(SOURCES[name].read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            assert is_record(node), f"line {node.lineno}"
        assert not isinstance(node, (ast.Raise, ast.Try, ast.Assert)), f"line {node.lineno}"
        assert not (isinstance(node, ast.Name) and node.id == "print"), f"line {node.lineno}"


MOST_ARGUMENTS = 10  # outside of compiled code, `self` not counted


def crowded(source: str) -> list[str]:
    """Names of the functions that take more arguments than a call can be read with."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            names = [entry.arg for entry in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)]
            if len(names) - (names[:1] in (["self"], ["cls"])) > MOST_ARGUMENTS:
                found.append(f"{getattr(node, 'name', 'lambda')}, line {node.lineno}")
    return found


@pytest.mark.parametrize("name", [name for name in SOURCES if not is_kernel(name)])
def test_no_function_takes_more_than_ten_arguments(name):
    assert not crowded(SOURCES[name].read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    "given", ["a,b,c,d,e,f,g,h,i,j", "a,b,c,d,e,f,g,h,i,j,*,k", "self,a,b,c,d,e,f,g,h,i,j=0"]
)
def test_a_crowded_function_is_seen(given):
    n_counted = given.replace("*,", "").replace("self,", "").count(",") + 1
    assert len(crowded(f"def f({given}):\n    pass")) == (n_counted > MOST_ARGUMENTS)


class TestImportingThePackage:
    def test_it_loads_nothing_heavy(self):
        script = f"import sys, crfqn; print(*(name for name in {HEAVY} if name in sys.modules))"
        command = [sys.executable, "-c", script]
        assert subprocess.run(command, capture_output=True, text=True, check=True).stdout.split() == []

    def test_every_public_name_is_there(self):
        assert {"ChainCRF", "Sequences", "load"} <= set(dir(crfqn))
        assert all(getattr(crfqn, name) is not None for name in crfqn.__all__)
        with pytest.raises(AttributeError, match="unheard_of"):
            crfqn.unheard_of  # noqa: B018


def test_modules_that_moved_are_found_under_their_old_names():
    for old, new in crfqn.MOVED.items():
        assert importlib.import_module(old) is importlib.import_module(new)
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("crfqn.data.labels.unheard_of")
