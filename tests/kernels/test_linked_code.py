"""Kernels that are compiled for other kernels alone: nobody else may call them, which would end the process."""

import ast
from pathlib import Path

import crfqn
from crfqn.kernels import subkernel

PACKAGE = Path(crfqn.__file__).parent
KERNELS = {*(PACKAGE / "kernels").rglob("*.py"), *PACKAGE.rglob("*_kernels.py")}
LINKED = {"inner", "strict_inner", "exact_inner"} | {
    f"{kind}subkernel" for kind in ("", "bare_", "strict_", "exact_")
}


def module_of(path: Path) -> str:
    return ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts)


def linked_kernels() -> set[tuple[str, str]]:
    """The modules and names of the linked kernels."""
    return {
        (module_of(path), node.name)
        for path in KERNELS
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.FunctionDef) and LINKED & {ast.unparse(mark) for mark in node.decorator_list}
    }


def test_only_kernels_call_linked_kernels():
    linked = linked_kernels()
    assert len(linked) > 100
    for path in PACKAGE.rglob("*.py"):
        tree = ast.parse(path.read_text())
        imported = {
            alias.name
            for node in ast.walk(tree)
            if isinstance(node, ast.ImportFrom)
            for alias in node.names
            if (node.module, alias.name) in linked
        }
        if path not in KERNELS:
            assert not imported, f"{path}: {sorted(imported)} have no entry from Python"
            continue
        own = {name for module, name in linked if module == module_of(path)}
        for node in tree.body:
            if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and not node.decorator_list:
                names = {name.id for name in ast.walk(node) if isinstance(name, ast.Name)}
                assert not names & (imported | own), f"{path}: {node.name}"


def test_a_linked_kernel_has_no_entry():
    import numba

    @subkernel
    def doubled(x):
        return 2 * x

    @numba.njit
    def four_times(x):
        return doubled(doubled(x))

    assert four_times(3) == 12
    (compiled,) = doubled.overloads.values()
    code = compiled._asdict()["library"]
    assert not code.get_pointer_to_function(compiled.fndesc.llvm_func_name)
