"""Classes stay readable: chains of inheritance are short, and no module reads the private names of another.

A chain counts the classes of crfqn alone, not those of scikit-learn and of the standard library.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path

import crfqn

PACKAGE = Path(crfqn.__file__).parent
LONGEST = 3
NAMED_TUPLES = {"_replace", "_asdict", "_fields"}  # of the standard library
FOREIGN = {"future._state"}  # of dask's


def modules() -> dict[str, ast.Module]:
    """Return the syntax trees of all modules by name."""
    paths = {
        ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(".__init__"): path
        for path in PACKAGE.rglob("*.py")
    }
    return {name: ast.parse(path.read_text(encoding="utf-8")) for name, path in paths.items()}


def bases_of_classes(trees: Mapping[str, ast.Module]) -> dict[str, list[str]]:
    """Return the bases of each class; classes have the dotted names of the modules that define them."""
    imported, written = {}, {}
    for module, tree in trees.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom):
                names = [(alias.asname or alias.name, alias.name) for alias in node.names]
                imported |= {f"{module}.{here}": f"{node.module}.{there}" for here, there in names}
            elif isinstance(node, ast.ClassDef):
                bases = [base.value if isinstance(base, ast.Subscript) else base for base in node.bases]
                written[f"{module}.{node.name}"] = [f"{module}.{ast.unparse(base)}" for base in bases]

    def defined(name: str) -> str:
        while name not in written and name in imported:
            name = imported[name]
        return name

    return {name: [*map(defined, bases)] for name, bases in written.items()}


def longest_chain(name: str, bases: Mapping[str, list[str]]) -> list[str]:
    """Return the longest chain of classes that are known, from a top one down to the class of this name."""
    chains = [longest_chain(base, bases) for base in bases[name] if base in bases]
    return [*max(chains, key=len, default=[]), name]


def too_long(trees: Mapping[str, ast.Module]) -> list[list[str]]:
    """Return the chains that are longer than they may be."""
    bases = bases_of_classes(trees)
    chains = [longest_chain(name, bases) for name in bases]
    return [chain for chain in chains if len(chain) > LONGEST]


def test_chains_of_inheritance_have_three_classes():
    assert too_long(modules()) == []


def test_a_long_chain_is_seen():
    source = {
        "a": "class A: ...\nclass B(A): ...",
        "b": "from a import B\nclass C(B, object): ...\nclass D(C[int]): ...",
    }
    assert too_long({name: ast.parse(text) for name, text in source.items()}) == [
        ["a.A", "a.B", "b.C", "b.D"]
    ]


def defined_names(tree: ast.Module) -> set[str]:
    """Return all names that a module gives to something, attributes included."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            found.add(node.name)
        elif isinstance(node, (ast.Attribute, ast.Name)) and isinstance(node.ctx, ast.Store):
            found.add(node.attr if isinstance(node, ast.Attribute) else node.id)
    return found


def private_reads(trees: Mapping[str, ast.Module]) -> Iterator[str]:
    """Yield the attributes with an underscore that a module reads of an object of another one; what a class has from
    its bases is its own."""
    names = {module: defined_names(tree) for module, tree in trees.items()}
    ours = set().union(*names.values()) - NAMED_TUPLES
    for module, tree in trees.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
                is_private = node.attr.startswith("_") and not node.attr.startswith("__")
                text = ast.unparse(node)
                is_own = text.startswith(("self._", "cls._", "super()."))
                if is_private and not is_own and node.attr in ours - names[module] and text not in FOREIGN:
                    yield f"{module}, line {node.lineno}: {text}"


def test_no_module_reads_private_names_of_another():
    assert [*private_reads(modules())] == []


def test_a_private_read_is_seen():
    source = {"a": "class A:\n    def _f(self): return self._f", "b": "def g(a):\n    return a._f()"}
    assert [*private_reads({name: ast.parse(text) for name, text in source.items()})] == ["b, line 2: a._f"]
