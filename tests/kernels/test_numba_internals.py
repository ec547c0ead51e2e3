"""What leans on numba's insides, each by itself: the test that fails says what a new version of numba has moved.

Kernels that are compiled for other kernels alone may not be called by anybody else, which would end the process.
"""

import ast
from pathlib import Path

import numba
import numpy as np
import pytest

import crfqn
from crfqn.kernels import FUSED, inner, kernel, numba_internals, subkernel
from crfqn.kernels.numba_internals import (
    LANES,
    add_outer_4_2,
    add_picked,
    add_products,
    exchange,
    exponent,
    hinge_move,
    hinge_slopes,
    interleave_block,
    is_less,
    larger,
    load_acquire,
    load_lanes,
    mantissa,
    separate_block,
    smaller,
    spread,
    store_lanes,
    store_release,
)

PACKAGE = Path(crfqn.__file__).parent
KERNELS = {*(PACKAGE / "kernels").rglob("*.py"), *PACKAGE.rglob("*_kernels.py")}
LINKED = ("inner", "subkernel")


NEWEST_TRIED = (
    0,
    68,
)  # the newest numba of the registry when all tests of kernels last passed; the oldest was 0.62


def test_the_installed_numba_has_been_tried():
    """The declared range has no upper end, so that a new version reaches users first: here it is noticed."""
    installed = tuple(map(int, numba.__version__.split(".")[:2]))
    assert installed <= NEWEST_TRIED, (
        "run the tests of kernels, structures and solvers, then name this version here"
    )


def module_of(path: Path) -> str:
    return ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts)


def linked_kernels() -> set[tuple[str, str]]:
    """The modules and names of the linked kernels."""
    return {
        (module_of(path), node.name)
        for path in KERNELS
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.FunctionDef)
        and any(ast.unparse(mark).startswith(LINKED) for mark in node.decorator_list)
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


def test_the_hash_covers_all_kernels(monkeypatch, tmp_path):
    read = []
    real = Path.read_bytes
    monkeypatch.setattr(Path, "read_bytes", lambda path: read.append(path) or real(path))
    numba_internals.hash_of_kernels.__wrapped__()
    assert set(read) == KERNELS
    assert len(KERNELS) > 20


def test_registers():
    @inner(sums=FUSED)
    def combined(a, b):
        return (a + b) * (a - b) / spread(2.0) + is_less(a, b) * (larger(a, b) - smaller(a, b))

    @kernel
    def run(a, b, out):
        x, y = load_lanes(a, 0), load_lanes(b, 0)
        store_lanes(out, 0, combined(x, y))
        store_lanes(out, LANES, mantissa(x))
        store_lanes(out, 2 * LANES, exponent(x))

    random = np.random.default_rng(0)
    a, b, out = random.random(LANES) + 0.1, random.random(LANES) + 0.1, np.zeros((3, LANES))
    run(a, b, out)
    np.testing.assert_allclose(out[0], (a + b) * (a - b) / 2 + (a < b) * abs(a - b), rtol=1e-14)
    np.testing.assert_array_equal(out[1] * 2.0 ** out[2], a)
    assert ((out[1] >= 1) & (out[1] < 2)).all()


def test_items_into_lanes_and_back():
    @kernel
    def run(numbers, runs, block, out):
        interleave_block(numbers, runs, 0, 0, block, 0, LANES)
        separate_block(block, 0, LANES, runs, 0, 0, out)

    lengths = np.arange(1, LANES + 1)
    starts = np.cumsum(lengths) - lengths
    numbers, block = np.random.default_rng(1).random(lengths.sum()), np.full((LANES, LANES), np.nan)
    out = np.zeros(numbers.size)
    run(numbers, np.stack([starts, lengths]), block, out)
    np.testing.assert_array_equal(out, numbers)
    for lane, (start, length) in enumerate(zip(starts, lengths, strict=True)):
        np.testing.assert_array_equal(block[:length, lane], numbers[start : start + length])
        assert not block[length:, lane].any()


def test_outer_products_lane_by_lane():
    @kernel
    def run(numbers):
        add_outer_4_2(numbers, 0, 4 * numbers.shape[1], 7 * numbers.shape[1], numbers.shape[1], 3)

    numbers = np.random.default_rng(2).random((10, 4 * LANES))
    numbers[:4] = 0.0
    run(numbers)
    out, a, b = numbers[:4], numbers[4:7], numbers[7:]
    x, y = a.reshape(3, 4, LANES), b.reshape(3, 4, LANES)[:, :2]
    np.testing.assert_allclose(out[:, : 2 * LANES].reshape(4, 2, LANES), np.einsum("til,tjl->ijl", x, y))


@pytest.mark.parametrize("kind", [np.int32, np.int64])
def test_sums_of_rows(kind):
    @kernel
    def run(picked, products, matrix, indices, weights, nothing):
        add_picked(picked[0], matrix, indices, 0, indices.size, nothing)
        add_picked(picked[1], matrix, indices, 0, indices.size, weights)
        add_products(products, matrix, 0, matrix.shape[0], weights, 0, 1)

    random = np.random.default_rng(3)
    matrix, indices, weights = random.random((5, 6 * LANES)), np.array([3, 0, 3], kind), random.random(5)
    picked, products = np.zeros((2, 6 * LANES)), np.zeros(6 * LANES)
    run(picked, products, matrix, indices, weights, np.empty(0))
    np.testing.assert_allclose(picked[0], matrix[indices].sum(axis=0))
    np.testing.assert_allclose(picked[1], weights[:3] @ matrix[indices])
    np.testing.assert_allclose(products, weights @ matrix)


def test_hinge_rows():
    @kernel
    def run(g, h, own, d, margins, indices, values, labels, weights):
        hinge_slopes(g, h, own, margins, indices, 0, 3, values, 1, labels, weights)
        return hinge_move(d, margins, indices, 0, 3, values, 1, labels, weights, 0.5)

    random = np.random.default_rng(4)
    margins, d = random.normal(size=(4, LANES)), random.normal(size=LANES)
    indices, labels = np.array([0, 2, 3], np.int32), np.array([1, 0, 2, 2], np.int32)
    values, weights = random.random(3), random.random(4)
    g, h, own, before = np.zeros(LANES), np.zeros(LANES), np.zeros((2, LANES)), margins.copy()
    change = run(g, h, own, d, margins, indices, values, labels, weights)
    slack, c, y = np.maximum(before[indices], 0), weights[indices], labels[indices]
    np.testing.assert_allclose(g, (c * values) @ slack)
    np.testing.assert_allclose(h, (c * values**2) @ (slack > 0))
    expected = np.zeros((2, LANES))
    np.add.at(expected[0], y, -c * values * slack.sum(axis=1))
    np.add.at(expected[1], y, c * values**2 * (slack > 0).sum(axis=1))
    np.testing.assert_allclose(own, expected)
    moved = before[indices] + 0.5 * values[:, None] * (d - d[y][:, None])
    np.testing.assert_allclose(margins[indices], moved)
    assert change == pytest.approx(c @ (np.maximum(moved, 0) ** 2 - slack**2).sum(axis=1))


def test_numbers_that_threads_watch():
    @kernel
    def run(group):
        store_release(group, 1, 7)
        return exchange(group, 0, 5), exchange(group, 3, 6), load_acquire(group, 1)

    group = np.zeros(4, np.int64)
    assert run(group) == (True, False, 7)
    assert group.tolist() == [5, 7, 0, 0]
