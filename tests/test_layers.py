"""The layers of the library: imports only go down, never in circles, kernels stay plain, and `import crfqn` is cheap.

The contracts stand in pyproject.toml. Every import statement counts, also within functions and under `TYPE_CHECKING`: a
type is knowledge too, and a circle of which one side is only imported when a function runs is a circle still.
"""

from __future__ import annotations

import ast
import html
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import grimp
import pytest

import crfqn
from crfqn import registry
from crfqn.registry import find

PACKAGE = Path(crfqn.__file__).parent
CONTRACTS = Path(__file__).parents[1] / "pyproject.toml"
# Mathematics only: of objectives the base classes, and neither features nor structures nor penalties; what a method
# keeps over the items, in files named so, may know all of them.
SOLVERS_MAY_IMPORT = {
    "solvers", "result", "kernels", "arrays", "errors", "time_limit", "penalties.penalty",
    "objectives.item_bound", "objectives.objective", "objectives.point", "objectives.curvature",
}  # fmt: skip
# What lies below the estimators depends on nothing heavier than this; the layers above may use anything.
LIBRARIES = {
    "kernels": {"numpy", "numba", "llvmlite"},
    "taxonomy": {"numpy", "scipy", "networkx"},
    "data.files": {"numpy", "zstandard", "compression"},
    "data.model_file": {"numpy", "safetensors"},
    **{
        name: {"numpy"}
        for name in (
            "arrays",
            "atomic_write",
            "errors",
            "choices",
            "messages",
            "numerals",
            "parameters",
            "projections",
            "registry",
        )
    },
    "data_options": set(),
    "threads": {"numpy", "joblib", "threadpoolctl"},
    **{name: {"numpy", "scipy"} for name in ("data", "structures", "penalties", "objectives", "solvers")},
}
OPTIONAL = {
    "pandas", "pyarrow", "matplotlib", "dask", "starlette", "uvicorn", "anyio", "typer", "click", "networkx", "pooch",
    "jinja2", "onnx", "safetensors", "rich", "pycrfsuite",
}  # fmt: skip
TRAININGS = {
    "chain": "from crfqn import ChainCRF; ChainCRF(l1=0.1).fit([[{'w': 'a'}, {'w': 'b'}]], [['X', 'Y']])",
    "flat": "from crfqn import MulticlassClassifier as M; M(group_l1=0.1).fit([[0.0], [1.0], [2.0]], [0, 1, 2])",
    "sklearn-crfsuite's names": "from crfqn.compat import CRF; CRF(c1=0.1).fit([[['a'], ['b']]], [['X', 'Y']])",
    "command line": """
from crfqn.cli import main
sys.argv = ["crfqn", "train", "--data", "items.conll", "--l1", "0.1", "-o", "m.crfqn", "--quiet"]
try:
    main()
except SystemExit as end:
    assert not end.code
""",
}
# What an import of all of scikit-learn, or of all of this package, would bring.
UNUSED = (
    "dask", "jinja2", "matplotlib", "networkx", "onnx", "pooch", "requests", "scipy.io",
    "sklearn.feature_extraction", "sklearn.metrics", "sklearn.model_selection", "sklearn.preprocessing",
)  # fmt: skip
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


def module_name(path: Path) -> str:
    """The name of a source file below the package, such as `kernels.chain`."""
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


SOURCES = {module_name(path): path for path in sorted(PACKAGE.rglob("*.py"))}


@pytest.fixture(scope="module")
def imports():
    return grimp.build_graph("crfqn", include_external_packages=True, cache_dir=None)


def imported(imports: grimp.ImportGraph) -> Iterator[tuple[str, str]]:
    """Pairs of a module, without the package's name, and what it imports."""
    for module in sorted(imports.modules):
        if module.startswith("crfqn."):
            for target in sorted(imports.find_modules_directly_imported_by(module)):
                yield module.removeprefix("crfqn."), target


def lint(contracts: Path) -> subprocess.CompletedProcess[str]:
    """Run import-linter in a process of its own: it configures logging, which silences every logger made before."""
    script = "import sys; from importlinter.cli import lint_imports; sys.exit(lint_imports(sys.argv[1], no_cache=True))"
    return subprocess.run([sys.executable, "-c", script, str(contracts)], capture_output=True, text=True)


def test_imports_go_down_and_never_in_circles():
    found = lint(CONTRACTS)
    assert found.returncode == 0, found.stdout + found.stderr


def test_a_breach_is_seen(tmp_path):
    upside_down = (
        CONTRACTS.read_text(encoding="utf-8")
        .replace('"solvers | ', '"', 1)
        .replace('"objectives | taxonomy",', '"objectives | taxonomy",\n  "solvers",', 1)
    )
    (tmp_path / "pyproject.toml").write_text(upside_down, encoding="utf-8")
    found = lint(tmp_path / "pyproject.toml")
    assert found.returncode == 1
    assert "BROKEN" in found.stdout, found.stdout + found.stderr


def test_the_picture_shows_the_imports_of_today(monkeypatch):
    monkeypatch.syspath_prepend(CONTRACTS.parent / "docs")
    import draw_architecture

    picture = draw_architecture.PICTURE.read_text(encoding="utf-8")
    assert html.escape("; ".join(draw_architecture.arrows(draw_architecture.rooms()))) in picture


def test_no_two_folders_import_each_other(imports):
    def folder(module: str) -> str:
        path = SOURCES[module]
        return path.parent.relative_to(PACKAGE).as_posix()

    pairs = {
        (folder(module), folder(target.removeprefix("crfqn.")))
        for module, target in imported(imports)
        if target.startswith("crfqn.") and module != "__main__"
    }
    assert [pair for pair in pairs if pair[0] != pair[1] and pair[::-1] in pairs] == []


def test_solvers_are_mathematics(imports):
    known = [
        (module, target)
        for module, target in imported(imports)
        if module.startswith("solvers.") and target.startswith("crfqn.") and not module.endswith("state")
    ]
    names = [(module, target.removeprefix("crfqn.")) for module, target in known]
    assert [pair for pair in names if not {pair[1], pair[1].split(".")[0]} & SOLVERS_MAY_IMPORT] == []


def test_libraries_below_the_estimators_are_few(imports):
    found = []
    for module, target in imported(imports):
        room, library = module.split(".")[0], target.split(".")[0]
        allowed = LIBRARIES.get(module, LIBRARIES.get(room))
        # The package itself hands out estimators, so that none of these may ask it for anything.
        is_ours = library == "crfqn" and target != "crfqn"
        if allowed is not None and not is_ours and library not in allowed | sys.stdlib_module_names:
            found.append(f"{module} imports {target}")
    assert found == []


# How code is compiled and kept, how threads are started for it, and a type that numba has to be told about.
AROUND_KERNELS = {f"kernels.{name}" for name in ("numba_internals", "second_process", "thread_group")}


def is_kernel(name: str) -> bool:
    """Whether a module holds compiled code: below `kernels`, or beside the one method that it is for."""
    return name.startswith("kernels.") or name.endswith("_kernels")


def is_record(node: ast.ClassDef) -> bool:
    """Whether a class is arrays and numbers under names, which numba passes as a tuple: it has no code."""
    is_tuple = [ast.unparse(base) for base in node.bases] == ["NamedTuple"]
    return is_tuple and all(isinstance(part, (ast.AnnAssign, ast.Expr)) for part in node.body)


def unlike_kernels(source: str) -> list[str]:
    """What does not belong into compiled code: classes but for records, exceptions, assertions and prints."""
    return [
        f"line {node.lineno}"
        for node in ast.walk(ast.parse(source))
        if (isinstance(node, ast.ClassDef) and not is_record(node))
        or isinstance(node, (ast.Raise, ast.Try, ast.Assert))
        or (isinstance(node, ast.Name) and node.id == "print")
    ]


def breaches(find: Callable[[str], list[str]], names: Iterable[str]) -> list[str]:
    """What is found in the sources of these modules, with the module's name."""
    return [f"{name}, {each}" for name in names for each in find(SOURCES[name].read_text(encoding="utf-8"))]


def test_kernels_hold_no_classes_but_records_no_exceptions_and_no_prints():
    assert breaches(unlike_kernels, filter(is_kernel, SOURCES.keys() - AROUND_KERNELS)) == []


TRICKS = (  # with the interpreter: frames of callers, hooks of imports, modules and names of the package by strings
    "import_module(", "__import__(", "sys.meta_path", "sys._getframe", "currentframe(", "inspect.stack",
    "getattr(crfqn",
)  # fmt: skip


def tricks(source: str) -> list[str]:
    """Return what is in a source of what only reads or changes how the interpreter works."""
    return [each for each in TRICKS if each in source]


def test_no_module_plays_tricks_with_the_interpreter():
    assert breaches(tricks, SOURCES) == []


@pytest.mark.parametrize(
    "source", ["f = sys._getframe(1)", "importlib.import_module(name).f", "getattr(crfqn, name)"]
)
def test_a_trick_is_seen(source):
    assert len(tricks(source)) == 1


MOST_ARGUMENTS = 10  # outside of compiled code, `self` not counted


def crowded(source: str) -> list[str]:
    """Names of the functions that take more arguments than a call can be read with."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            names = [entry.arg for entry in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)]
            name = getattr(node, "name", "lambda")
            if len(names) - (names[:1] in (["self"], ["cls"])) > MOST_ARGUMENTS:
                found.append(f"{name}, line {node.lineno}")
    return found


def test_no_function_takes_more_than_ten_arguments():
    assert breaches(crowded, (name for name in SOURCES if not is_kernel(name))) == []


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

    def test_estimators_load_nothing_that_is_optional(self):
        """Beyond what scikit-learn itself loads: for its callbacks, rich."""
        script = """
import contextlib, sys, sklearn.metrics, sklearn.utils.metaestimators
with contextlib.suppress(ImportError):
    import sklearn.callback
before = {*sys.modules}
from crfqn import ChainCRF
print(*{name.split(".")[0] for name in {*sys.modules} - before})
"""
        found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
        assert OPTIONAL.isdisjoint(found.stdout.split())

    def test_a_training_loads_nothing_that_it_does_not_use(self, tmp_path):
        """In one process, after each training: what the first one loads stays loaded."""
        show = f"print({{training!r}}, *(name for name in {UNUSED} if name in sys.modules), sep=': ')"
        steps = [f"{code}\n{show.format(training=training)}" for training, code in TRAININGS.items()]
        command = [sys.executable, "-W", "ignore", "-c", "\n".join(["import sys", *steps])]
        (tmp_path / "items.conll").write_text("a\tX\nb\tY\n\nb\tY\na\tX\n")
        ended = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path)
        assert ended.stdout.splitlines() == [*TRAININGS]

    def test_every_public_name_is_there(self):
        assert {"ChainCRF", "Sequences", "load"} <= set(dir(crfqn))
        assert all(getattr(crfqn, name) is not None for name in crfqn.__all__)
        assert all(find(name).__name__ == name for name in registry._IMPORTS)
        with pytest.raises(AttributeError, match="unheard_of"):
            crfqn.unheard_of  # noqa: B018
