"""The label tree against definitions in plain Python, networkx there and back, and every tree that is refused."""

from __future__ import annotations

import copy
import math
import pickle

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crfqn.errors import InputError
from crfqn.structures.taxonomy import Taxonomy
from crfqn.taxonomy.reading import path_edges
from crfqn.taxonomy.tree import MAX_ANCESTORS, LabelTree, plain_name

EDGES = [
    ("sport", "tennis"),
    ("art", "music"),
    ("music", "opera"),
    ("sport", "golf"),
    ("music", "jazz"),
    ("art", "film"),
]
NAMES = ("sport", "art", "tennis", "golf", "music", "film", "opera", "jazz")
PARENTS = [-1, -1, 0, 0, 1, 1, 4, 4]


def graph_of(edges) -> nx.DiGraph:
    return nx.DiGraph(edges)


def parents_by_name(tree: LabelTree) -> dict:
    return {
        name: None if parent < 0 else tree.names[parent]
        for name, parent in zip(tree.names, tree.parents.tolist(), strict=True)
    }


def assert_same(tree: LabelTree, other: LabelTree) -> None:
    assert tree.names == other.names
    assert [*map(type, tree.names)] == [*map(type, other.names)]
    np.testing.assert_array_equal(tree.parents, other.parents)


@pytest.fixture
def tree() -> LabelTree:
    return LabelTree.from_graph(graph_of(EDGES))


# ---- what a tree knows


def test_level_order_by_first_appearance(tree):
    assert tree.names == NAMES
    assert tree.parents.tolist() == PARENTS
    assert tree.depths.tolist() == [0, 0, 1, 1, 1, 1, 2, 2]
    assert tree.is_leaf.tolist() == [False, False, True, True, False, True, True, True]
    assert tree.leaves.tolist() == [2, 3, 5, 6, 7]
    assert tree.n_nodes == 8
    assert (tree.parents.dtype, tree.depths.dtype, tree.is_leaf.dtype) == (np.int32, np.int32, bool)
    assert repr(tree) == "LabelTree(8 nodes: 2 tops, 5 leaves, 3 levels)"


def test_siblings_go_by_the_order_of_the_nodes_not_of_the_edges():
    graph = nx.DiGraph()
    graph.add_nodes_from(["c", "a", "b", "top", "alone"])
    graph.add_edges_from([("top", "b"), ("top", "a"), ("top", "c")])
    assert LabelTree.from_graph(graph).names == ("top", "alone", "c", "a", "b")


def test_a_named_root_stays_a_node():
    graph = graph_of([("root", "a"), ("root", "b")])
    tree = LabelTree.from_graph(graph)
    assert (tree.names, tree.parents.tolist()) == (("root", "a", "b"), [-1, 0, 0])


def test_one_node_alone():
    graph = nx.DiGraph()
    graph.add_node(7)
    tree = LabelTree.from_graph(graph)
    assert (tree.names, tree.parents.tolist(), tree.leaves.tolist()) == ((7,), [-1], [0])
    assert tree.ancestors().toarray().tolist() == [[True]]
    assert tree.collapsed().names == (7,)


def test_parallel_edges_are_one():
    graph = nx.MultiDiGraph([("a", "b"), ("a", "b")])
    assert LabelTree.from_graph(graph).parents.tolist() == [-1, 0]


def test_the_graph_is_left_alone():
    graph = graph_of(EDGES)
    before = graph.copy()
    LabelTree.from_graph(graph)
    assert list(graph.nodes) == list(before.nodes)
    assert list(graph.edges) == list(before.edges)


def test_star():
    tree = LabelTree.star(["b", "a", "c"])
    assert tree.names == ("b", "a", "c")
    assert tree.parents.tolist() == [-1, -1, -1]
    assert tree.is_leaf.all()
    assert not tree.depths.any()


def test_names_become_plain():
    tree = LabelTree.star([np.int32(3), np.str_("a"), np.float64(0.5), np.bool_(True)])
    assert [(type(name), name) for name in tree.names] == [(int, 3), (str, "a"), (float, 0.5), (bool, True)]


@pytest.mark.parametrize("names", [
    ["opera", "sport", "opera"],
    np.array(["opera", "sport", "opera"]),
    np.array(["opera", "sport", "opera"], object),
    ("opera", np.str_("sport"), "opera"),
])  # fmt: skip
def test_nodes_of_names(tree, names):
    nodes = tree.nodes_of(names)
    assert nodes.dtype == np.int32
    assert nodes.tolist() == [6, 0, 6]
    assert tree.node_of("jazz") == 7


def test_nodes_of_numbers():
    tree = LabelTree.star([10, 20, 30])
    for names in ([30, 10], np.array([30, 10], np.uint8), np.array([30.0, 10.0]), (np.int64(30), 10)):
        assert tree.nodes_of(names).tolist() == [2, 0]
    assert tree.nodes_of([]).shape == tree.nodes_of(np.array([], int)).shape == (0,)


def test_paths_and_ancestors_agree(tree):
    assert tree.path(6).tolist() == [1, 4, 6]
    assert tree.path(0).tolist() == [0]
    ancestors = tree.ancestors()
    assert ancestors.dtype == bool
    for k in range(tree.n_nodes):
        row = ancestors.indices[ancestors.indptr[k] : ancestors.indptr[k + 1]]
        assert row.tolist() == tree.path(k).tolist()
    assert (ancestors.sum(axis=1) == tree.depths + 1).all()


def test_copies(tree):
    tree.nodes_of(["art"])
    for twin in (pickle.loads(pickle.dumps(tree)), copy.copy(tree), copy.deepcopy(tree)):
        assert_same(twin, tree)


# ---- single children


def test_collapsed():
    paths = ["alt.atheism", "comp.sys.mac.hardware", "comp.sys.ibm", "sci.med", "sci.med.eye", "sci.law"]
    tree = LabelTree.from_edges(path_edges((("", path) for path in paths), "."))
    kept = {"alt.atheism": None, "comp.sys.mac.hardware": "comp.sys", "comp.sys.ibm": "comp.sys"}
    kept |= {"comp.sys": None, "sci": None, "sci.law": "sci"}
    assert parents_by_name(tree.collapsed()) == kept | {"sci.med.eye": "sci"}
    with_labels = kept | {"sci.med": "sci", "sci.med.eye": "sci.med"}
    assert parents_by_name(tree.collapsed(paths)) == with_labels
    # Nodes move to other levels, so that level order is made anew.
    assert tree.collapsed(paths).names[:4] == ("sci", "alt.atheism", "comp.sys", "sci.med")
    assert_same(tree.collapsed(tree.names), tree)


def test_a_chain_collapses_to_its_leaf():
    tree = LabelTree.from_edges((k, k + 1) for k in range(5))
    assert tree.collapsed().names == (5,)
    assert parents_by_name(tree.collapsed([0, 3])) == {0: None, 3: 0, 5: 3}


def test_collapsed_keeps_known_nodes_only(tree):
    with pytest.raises(InputError, match=r"no node named 'operas'; the name closest to 'operas' is 'opera'$"):
        tree.collapsed(["operas"])


# ---- any forest


@st.composite
def forests(draw) -> dict:
    """Child -> parent, the keys shuffled; None above the tops."""
    n_nodes = draw(st.integers(1, 30))
    names = draw(st.permutations([*range(n_nodes // 2), *(f"n{k}" for k in range(n_nodes // 2, n_nodes))]))
    parent_of = {name: draw(st.sampled_from([None, *names[:k]])) for k, name in enumerate(names)}
    return {name: parent_of[name] for name in draw(st.permutations(names))}


@settings(deadline=None, max_examples=100)
@given(forests())
def test_any_forest(parent_of):
    graph = nx.DiGraph()
    graph.add_nodes_from(name for name, parent in parent_of.items() if parent is None)
    graph.add_edges_from((parent, name) for name, parent in parent_of.items() if parent is not None)
    tree = LabelTree.from_graph(graph)
    assert parents_by_name(tree) == parent_of
    assert_same(LabelTree.from_graph(graph), tree)

    lineage = {}
    for name in parent_of:
        path = [name]
        while (above := parent_of[path[-1]]) is not None:
            path.append(above)
        lineage[name] = path[::-1]
    assert tree.depths.tolist() == [len(lineage[name]) - 1 for name in tree.names]
    assert {tree.names[k] for k in tree.leaves} == set(parent_of) - set(parent_of.values())
    for k, name in enumerate(tree.names):
        assert [tree.names[node] for node in tree.path(k)] == lineage[name]
        assert [tree.names[node] for node in np.flatnonzero(tree.ancestors().toarray()[k])] == lineage[name]

    # Level order: parents come before their children and ascend; so do depths; first appearance breaks ties.
    appearance = {name: k for k, name in enumerate(graph)}
    keys = [
        (parent, appearance[name]) for parent, name in zip(tree.parents.tolist(), tree.names, strict=True)
    ]
    assert keys == sorted(keys)
    assert all(parent < k for k, parent in enumerate(tree.parents))
    assert (np.diff(tree.depths) >= 0).all()


@settings(deadline=None, max_examples=100)
@given(forests(), st.data())
def test_networkx_there_and_back(parent_of, data):
    tree = LabelTree.from_edges((parent, name) for name, parent in parent_of.items())
    graph = tree.to_networkx()
    assert type(graph) is nx.DiGraph
    assert_same(LabelTree.from_graph(graph), tree)

    shuffled = nx.DiGraph()
    shuffled.add_nodes_from(data.draw(st.permutations(list(graph.nodes))))
    shuffled.add_edges_from(data.draw(st.permutations(list(graph.edges))))
    assert parents_by_name(LabelTree.from_graph(shuffled)) == parents_by_name(tree) == parent_of


@settings(deadline=None, max_examples=100)
@given(forests(), st.data())
def test_collapsing_any_forest(parent_of, data):
    tree = LabelTree.from_edges((parent, name) for name, parent in parent_of.items())
    keep = data.draw(st.lists(st.sampled_from(tree.names), unique=True))
    n_children = {name: [*parent_of.values()].count(name) for name in parent_of}
    stays = {name for name, n in n_children.items() if n != 1} | set(keep)
    expected = {}
    for name in stays:
        above = parent_of[name]
        while above is not None and above not in stays:
            above = parent_of[above]
        expected[name] = above
    small = tree.collapsed(keep)
    assert parents_by_name(small) == expected
    assert {small.names[k] for k in small.leaves} == {tree.names[k] for k in tree.leaves}
    assert_same(small.collapsed(keep), small)


@settings(deadline=None, max_examples=100)
@given(forests(), st.data())
def test_any_edge_more_is_refused(parent_of, data):
    """An edge between two nodes of a tree makes a cycle or a second parent, wherever it goes."""
    tree = LabelTree.from_edges((parent, name) for name, parent in parent_of.items())
    parent, child = (data.draw(st.sampled_from(tree.names)) for _ in range(2))
    graph = tree.to_networkx()
    is_new, has_parent = not graph.has_edge(parent, child), parent_of[child] is not None
    is_cycle = parent != child and child in nx.ancestors(graph, parent)
    graph.add_edge(parent, child)
    if not is_new:
        assert_same(LabelTree.from_graph(graph), tree)
    elif parent == child or is_cycle or has_parent:
        problem = "is its own parent" if parent == child else "a cycle" if is_cycle else "two parents"
        with pytest.raises(InputError, match=problem):
            LabelTree.from_graph(graph)
    else:
        assert parents_by_name(LabelTree.from_graph(graph)) == parent_of | {child: parent}


def test_large_and_deep():
    n = 100_000
    wide = LabelTree.from_edges(((k - 1) // 10 if k else None, k) for k in range(n))
    assert (wide.n_nodes, wide.leaves.size, int(wide.depths[-1])) == (n, 90_000, 5)
    assert wide.nodes_of(np.arange(n)).tolist() == list(range(n))
    assert wide.ancestors().nnz == (wide.depths + 1).sum()
    deep = LabelTree.from_edges((k, k + 1) for k in range(n))
    assert deep.depths.tolist() == list(range(n + 1))
    assert deep.path(n).size == n + 1
    assert deep.collapsed().names == (n,)


# ---- what is refused


def cycle_of(n: int) -> list[tuple[int, int]]:
    return [(k, (k + 1) % n) for k in range(n)]


@pytest.mark.parametrize(
    ("edges", "message"),
    [
        ([("a", "b"), ("b", "c"), ("b", "b")], "node 'b' is its own parent"),
        ([("a", "b"), ("b", "a")], "the taxonomy has a cycle: 'a' -> 'b' -> 'a'"),
        ([("x", "y"), ("b", "c"), ("c", "a"), ("a", "b")], "a cycle: 'b' -> 'c' -> 'a' -> 'b'"),
        # A way into the cycle gives a node two parents, but the cycle is what is wrong.
        ([("t", "a"), ("a", "b"), ("b", "a"), ("b", "c")], "the taxonomy has a cycle: 'a' -> 'b' -> 'a'"),
        (cycle_of(8), "a cycle: 0 -> 1 -> 2 -> 3 -> 4 -> 5 -> 6 -> 7 -> 0"),
        (cycle_of(9), "a cycle: 0 -> 1 -> 2 -> ... 5 more ... -> 8 -> 0"),
        (cycle_of(20_000), "a cycle: 0 -> 1 -> 2 -> ... 19996 more ... -> 19999 -> 0"),
        ([("a", "c"), ("b", "d"), ("b", "c")], "node 'c' has two parents: 'a' and 'b'; expected one"),
        ([(k, "x") for k in range(3)], "node 'x' has 3 parents: 0, 1 and 2; expected one"),
        ([(k, "x") for k in range(9)], "node 'x' has 9 parents: 0, 1, 2 and 6 more; expected one"),
        ([], "expected a taxonomy of at least one node, got none"),
        ([(1, 2), (1, "2")], "must differ, also as text, but 2 of type int and '2' of type str do not"),
        ([("a", "")], "expected node names with at least one visible character, got ''"),
        ([("a", " \t")], r"at least one visible character, got ' \t'"),
        ([("a", ("a", "b"))], "got ('a', 'b') of type tuple; the parts of a path are joined to one name"),
        ([("a", b"b")], "expected strings or finite numbers as node names, got b'b' of type bytes"),
        ([("a", float("nan"))], "expected strings or finite numbers as node names, got nan of type float"),
        ([("a", float("inf"))], "got inf of type float"),
    ],
)
def test_bad_graphs(edges, message):
    for make in (lambda: LabelTree.from_graph(graph_of(edges)), lambda: LabelTree.from_edges(edges)):
        with pytest.raises(InputError) as caught:
            make()
        assert message in str(caught.value)


@pytest.mark.parametrize(("graph", "message"), [
    (nx.Graph([("a", "b")]), "its edges from parent to child, got an undirected graph"),
    (nx.MultiGraph([("a", "b")]), "got an undirected graph"),
    ([("a", "b")], r"got \[\('a', 'b'\)\] of type list"),
    (None, "got None"),
])  # fmt: skip
def test_no_directed_graph(graph, message):
    with pytest.raises(InputError, match=message):
        LabelTree.from_graph(graph)


@pytest.mark.parametrize(("names", "message"), [
    (["a", "b", "a"], "^expected distinct node names, but 'a' comes twice$"),
    ([1, 1], "but 1 comes twice"),
    ([1, True], "but 1 of type int and True of type bool do not"),
    (["1.5", 1.5], "but '1.5' of type str and 1.5 of type float do not"),
    ([["a"]], r"got \['a'\] of type list"),
    ([None], "got None$"),
    ([], "at least one node"),
])  # fmt: skip
def test_bad_stars(names, message):
    with pytest.raises(InputError, match=message):
        LabelTree.star(names)


@pytest.mark.parametrize(("parents", "message"), [
    ([-1, -1], r"a parent for each of the 3 nodes, got parents of shape \(2,\)"),
    ([-1, 0, -1], "parents in level order"),
    ([-1, 1, 1], "parents in level order"),
    ([-2, -1, 0], "parents in level order"),
    ([-1, 0, -(2**31)], "parents in level order"),
])  # fmt: skip
def test_bad_parents(parents, message):
    with pytest.raises(InputError, match=message):
        LabelTree(("a", "b", "c"), parents)


@pytest.mark.parametrize(("names", "message"), [
    (["opera", "zzz"], "^the taxonomy of 8 nodes has no node named 'zzz'$"),
    (["muzic", "film", "fim"],
     "^the taxonomy of 8 nodes has no node named 'muzic' and 'fim'; the name closest to 'muzic' is 'music'$"),
    (["zzz", "yy", "zzz"], "no node named 'zzz' and 'yy'$"),
    (np.array(list("vwxyz")), "no node named 'v', 'w', 'x' and 2 more$"),
    ([1], "no node named 1$"),
    ([["opera"]], r"names, got \['opera'\] of type list"),
    (np.array([["opera"]]), r"names, got \['opera'\] of type list"),
    ([None], "names, got None$"),
    ("opera", "^expected a list of node names, got 'opera' of type str$"),
    (5, "^expected a list of node names, got 5 of type int$"),
])  # fmt: skip
def test_unknown_names(tree, names, message):
    with pytest.raises(InputError, match=message):
        tree.nodes_of(names)


def test_a_name_of_another_type_is_pointed_out():
    with pytest.raises(InputError, match=r"no node named 20; the name closest to 20 is '20' of type str$"):
        LabelTree.star(["10", "20"]).nodes_of(np.array([10, 20])[1:])
    with pytest.raises(InputError, match=r"no node named 'x'$"):
        LabelTree.star(["10", "20"]).node_of("x")


def edges_of(*paths, separator="/"):
    return list(path_edges(((f"path {i}", path) for i, path in enumerate(paths)), separator))


def test_path_edges():
    assert edges_of("a/b/c") == [(None, "a"), ("a", "a/b"), ("a/b", "a/b/c")]
    assert edges_of("a/b", "a/c/d", "a", "a/b") == [(None, "a"), ("a", "a/b"), ("a", "a/c"), ("a/c", "a/c/d")]
    assert edges_of("a > b", separator=" > ") == [(None, "a"), ("a", "a > b")]
    assert edges_of("a///b/c", "a//x", separator="//") == [(None, "a"), ("a", "a///b/c"), ("a", "a//x")]
    for path in ("/a", "a/", "a//b", "", "a/ /b"):
        with pytest.raises(
            InputError, match=r"^path 1: expected a path without empty parts, separated by '/', got '"
        ):
            edges_of("a", path)


def test_trees_too_deep_for_a_table_of_ancestors():
    depth = math.isqrt(2 * MAX_ANCESTORS) - 1
    assert LabelTree(range(depth), np.arange(-1, depth - 1)).ancestors().nnz <= MAX_ANCESTORS
    message = (
        r"the taxonomy is too deep: with 10,000 levels, its nodes have 50,005,000 ancestors; expected at"
    )
    with pytest.raises(InputError, match=f"^{message}"):
        LabelTree(range(10_000), np.arange(-1, 9_999)).ancestors()
    with pytest.raises(InputError, match=f"^path 0: {message}"):
        edges_of("a/" * 9_999 + "a")
    with pytest.raises(InputError, match=r"^path 2: the taxonomy is too deep"):  # several that are not, alone
        edges_of(*(f"{top}" + "/a" * 6_000 for top in "abc"))


def test_structure_and_tree_agree_on_ancestors():
    for parents in ([-1], [-1, -1, 0, 0, 3, 3, 4], np.arange(-1, 50)):
        tree = LabelTree(range(len(parents)), parents)
        ancestors = Taxonomy(tree.parents, np.ones(tree.n_nodes, bool), 0).ancestors
        table = tree.ancestors()
        for k in range(tree.n_nodes):
            assert ancestors.with_state(k)[0] == k
            assert (
                sorted(ancestors.with_state(k))
                == table.indices[table.indptr[k] : table.indptr[k + 1]].tolist()
            )


def test_plain_names_keep_their_value():
    assert plain_name(np.int64(2**40)) == 2**40
    assert plain_name("é") == "é"
