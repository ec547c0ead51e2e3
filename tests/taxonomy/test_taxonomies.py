"""Every form of a taxonomy gives the same tree, labels go to names and back, and bad forms are named."""

from __future__ import annotations

import gzip
import os
from collections import OrderedDict
from pathlib import Path

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crfqn.errors import CrfqnError, DataError, InputError
from crfqn.taxonomy.label_paths import PathRowFormat, PathTargets
from crfqn.taxonomy.reading import extend_taxonomy, find_nodes, open_taxonomy, read_taxonomy_file
from crfqn.taxonomy.tree import LabelTree

PATHS = ["art/film", "art/music/jazz", "art/music/opera", "news", "sport/golf"]
TUPLES = [tuple(path.split("/")) for path in PATHS]
PADDED = np.array([row + ("",) * (3 - len(row)) for row in TUPLES])
NODES = ("art", "news", "sport", "art/film", "art/music", "sport/golf", "art/music/jazz", "art/music/opera")
PARENT_OF = {node: node.rpartition("/")[0] or None for node in NODES}
EDGES = [(parent, node) for node, parent in PARENT_OF.items() if parent]
WITHOUT_NEWS = [node for node in NODES if node != "news"]


def graph() -> nx.DiGraph:
    made = nx.DiGraph()
    made.add_nodes_from(NODES)
    made.add_edges_from(EDGES)
    return made


def with_none(filler) -> np.ndarray:
    array = PADDED.astype(object)
    array[array == ""] = filler
    return array


FORMS = {
    "tree": lambda: LabelTree.from_graph(graph()),
    "graph": graph,
    "mapping": lambda: PARENT_OF,
    "ordered mapping": lambda: OrderedDict(PARENT_OF),
    "paths": lambda: PATHS,
    "every node's path": lambda: list(reversed(NODES)),
    "paths twice": lambda: PATHS + PATHS,
    "paths as a tuple": lambda: tuple(PATHS),
    "paths as a set": lambda: frozenset(PATHS),
    "paths from a generator": lambda: (path for path in PATHS),
    "array of paths": lambda: np.array(PATHS),
    "array of objects": lambda: np.array(PATHS, object),
    "tuples": lambda: TUPLES,
    "lists": lambda: [list(row) for row in TUPLES],
    "padded lists": lambda: PADDED.tolist(),
    "padded array": lambda: PADDED,
    "array padded with None": lambda: with_none(None),
    "array padded with NaN": lambda: with_none(np.nan),
    "labels as paths": lambda: None,
}


def parents_by_name(tree: LabelTree) -> dict:
    parents = [None if parent < 0 else tree.names[parent] for parent in tree.parents.tolist()]
    return dict(zip(tree.names, parents, strict=True))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("labels", [PATHS, np.array(PATHS[::-1]), TUPLES, PADDED, PathTargets.from_y(PADDED)])
def test_every_form_gives_the_same_tree(form, labels):
    tree = open_taxonomy(FORMS[form](), labels)
    assert parents_by_name(tree) == PARENT_OF
    if form != "every node's path":
        assert tree.names == NODES
    assert open_taxonomy(tree.to_networkx()).names == tree.names


FILES = {
    "paths.txt": "\n".join(PATHS),
    "nodes.txt": "# all nodes\n\n" + "\r\n".join(NODES) + "\n",
    "paths.txt.gz": "\n".join(PATHS),
}


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("kind", [str, Path])
def test_files_of_paths(tmp_path, name, kind):
    data = FILES[name].encode()
    (tmp_path / name).write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    tree = open_taxonomy(kind(tmp_path / name), PATHS)
    assert tree.names == NODES
    assert parents_by_name(tree) == PARENT_OF


def test_forms_without_lone_tops(tmp_path):
    """Pairs, and mappings that leave out the tops, name only nodes on edges."""
    expected = {node: PARENT_OF[node] for node in WITHOUT_NEWS}
    file = tmp_path / "edges.txt"
    file.write_text("".join(f"{parent} \t{child}\n" for parent, child in EDGES))
    short = {child: parent for parent, child in EDGES}
    for form in (EDGES, [list(edge) for edge in EDGES], iter(EDGES), graph().edges, set(EDGES), short):
        assert parents_by_name(open_taxonomy(form, PATHS)) == expected
    # The names hold the separator, so the reader is told another.
    assert parents_by_name(open_taxonomy(file, PATHS, separator=">")) == expected


def test_chains_in_a_file_have_names_of_their_own(tmp_path):
    file = tmp_path / "chains.txt"
    file.write_text("# top to leaf\n1 2 3 20\n1 2 3 21\n\n1 2 4\n5\n2 4 9\n")
    tree = open_taxonomy(file)
    assert parents_by_name(tree) == {
        "1": None, "5": None, "2": "1", "3": "2", "4": "2", "20": "3", "21": "3", "9": "4",
    }  # fmt: skip


def test_a_path_file_may_hold_spaces(tmp_path):
    file = tmp_path / "paths.txt"
    file.write_text("News Media\n  News Media/Radio Plays  \n")
    assert open_taxonomy(file).names == ("News Media", "News Media/Radio Plays")


def test_edges_in_a_file_may_hold_the_separator(tmp_path):
    """Two fields in every line are edges, whatever the names hold."""
    file = tmp_path / "edges.txt"
    file.write_text("# edges\nroot sport\n\nsport \t sport/golf\nsport sport/tennis\n")
    assert parents_by_name(open_taxonomy(file)) == {
        "root": None, "sport": "root", "sport/golf": "sport", "sport/tennis": "sport",
    }  # fmt: skip
    file.write_text("sport\nsport sport/golf\n")
    assert open_taxonomy(file).names == ("sport", "sport sport", "sport sport/golf")


def test_another_separator():
    tree = open_taxonomy(["comp.sys.mac", "comp.os"], separator=".")
    assert tree.names == ("comp", "comp.sys", "comp.os", "comp.sys.mac")
    assert open_taxonomy([("comp", "sys", "mac"), ("comp", "os")], separator=".").names == tree.names
    assert open_taxonomy(None, ["comp.os", "comp.sys.mac"], separator=".").names[0] == "comp"


class TestPairs:
    PAIRS = (("a", "b"), ("a", "c"))

    def test_are_edges(self):
        for labels in (None, ["b", "c"], np.array(["b"])):
            assert parents_by_name(open_taxonomy(self.PAIRS, labels)) == {"a": None, "b": "a", "c": "a"}

    def test_are_paths_where_labels_are_rows(self):
        for labels in (list(self.PAIRS), np.array(self.PAIRS), PathTargets.from_y(self.PAIRS)):
            tree = open_taxonomy(self.PAIRS, labels)
            assert parents_by_name(tree) == {"a": None, "a/b": "a", "a/c": "a"}

    def test_are_paths_in_an_array_and_among_longer_ones(self):
        assert open_taxonomy(np.array(self.PAIRS)).names == ("a", "a/b", "a/c")
        assert open_taxonomy([*self.PAIRS, ("a", "c", "d")]).names == ("a", "a/b", "a/c", "a/c/d")

    def test_keep_the_types_of_their_names(self):
        tree = open_taxonomy([(np.int64(1), 2), (1, "x")])
        assert [type(name) for name in tree.names] == [int, int, str]


class TestNodesOfLabels:
    PAIRS = (("u", "x"), ("u", "y"))

    def test_are_those_of_the_tree(self):
        tree = open_taxonomy(list(self.PAIRS))
        assert find_nodes(tree, np.array(["y", "u"]), list(self.PAIRS)).tolist() == [2, 0]

    @pytest.mark.parametrize(("taxonomy", "labels", "hint"), [
        (np.array(PAIRS), ["x"], "a 2-column array holds paths: pass a list of tuples for edges"),
        (list(PAIRS), ["u/x"], r"pairs hold edges \(parent, child\): pass strings a/b or a 2-column array"),
        (list(PAIRS), [("u", "z")], "with labels that are rows of parts, pairs hold paths: pass a mapping"),
        (["u/x", "u/y"], ["x"], None),
        (np.array([["u", "x", ""]]), ["x"], None),
    ])  # fmt: skip
    def test_pairs_may_have_been_meant_otherwise(self, taxonomy, labels, hint):
        known = PathTargets.from_y(labels)
        tree = open_taxonomy(taxonomy, known)
        with pytest.raises(InputError, match=hint and f"no node named .*; {hint}") as caught:
            find_nodes(tree, known.names, taxonomy, known.is_rows)
        assert hint or ("pairs" not in str(caught.value) and "column" not in str(caught.value))


class TestExtension:
    @pytest.mark.parametrize(("labels", "others"), [
        (["b/x", "a", "b/c"], ["b/d/e", "a", "f", "b/d/e"]),
        (TUPLES, [("Sports", "Golf"), *TUPLES[:2]]),
        (["a", "b"], ["c", "a"]),
        (["a", "b"], ["c/d", "a"]),
        ([3, 1], np.array([2, 1])),
    ])  # fmt: skip
    def test_is_the_tree_of_all_labels(self, labels, others):
        tree = extend_taxonomy(open_taxonomy(None, labels), others)
        assert parents_by_name(tree) == parents_by_name(open_taxonomy(None, [*labels, *others]))

    def test_keeps_a_tree_that_has_all(self):
        tree = open_taxonomy(None, ["a/b", "c"])
        assert extend_taxonomy(tree, ["a", "a/b"]) is tree
        assert extend_taxonomy(open_taxonomy(None, ["a.b"], "."), ["a.c"], ".").names == ("a", "a.b", "a.c")

    def test_refuses_what_is_no_path(self):
        with pytest.raises(InputError, match="without empty parts, separated by '/', got 'a//c'"):
            extend_taxonomy(open_taxonomy(None, ["a/b"]), ["a//c"])


class TestWithoutTaxonomy:
    def test_the_order_of_the_items_does_not_count(self):
        for labels in (["b/x", "a", "b/c"], ["a", "b/c", "b/x", "a"]):
            assert open_taxonomy(None, labels).names == ("a", "b", "b/c", "b/x")
            assert open_taxonomy(None, np.array(labels, object)).names == ("a", "b", "b/c", "b/x")

    def test_rows_are_paths(self):
        assert open_taxonomy(None, TUPLES).names == NODES

    @pytest.mark.parametrize(("labels", "names"), [
        (["b", "a", "b"], ("a", "b")),
        (np.array([3, 1, 3], np.int16), (1, 3)),
        (np.array([1.5, -2.0]), (-2.0, 1.5)),
        ([True, False], (False, True)),
        (np.array([[2], [1]]), (1, 2)),
        ([7], (7,)),
    ])  # fmt: skip
    def test_else_a_star(self, labels, names):
        tree = open_taxonomy(None, labels)
        assert tree.names == names
        assert [type(name) for name in tree.names] == [type(name) for name in names]
        assert (tree.parents == -1).all()


# ---- labels


class TestPathLabels:
    def test_names_stay_as_given(self):
        for y in (np.array(["a/b", "c"]), np.array([1, 2], np.int8), np.array(["a", "b"], object)):
            labels = PathTargets.from_y(y)
            assert labels.names is y or np.shares_memory(labels.names, y)
            assert labels.form is None

    @pytest.mark.parametrize(("y", "kind"), [
        (["a", "bc"], "U"), ([1, 2], "i"), ([1.5, 2], "f"), ([True], "b"), (("a", 1), "O"), ([None], "O"),
    ])  # fmt: skip
    def test_lists_of_names(self, y, kind):
        labels = PathTargets.from_y(y)
        assert labels.names.dtype.kind == kind
        assert labels.names.tolist() == list(y)
        assert not labels.is_rows

    @pytest.mark.parametrize("y", [[[3], [1]], [(3,), (1,)], np.array([[3], [1]], np.int64)])
    def test_a_column_is_no_path(self, y):
        labels = PathTargets.from_y(y)
        assert labels.names.tolist() == [3, 1]
        assert not labels.is_rows

    @pytest.mark.parametrize("filler", ["", None, np.nan])
    def test_rows(self, filler):
        padded = with_none(filler)
        for y in (padded, padded.tolist(), list(padded), [tuple(row) for row in padded]):
            labels = PathTargets.from_y(y)
            assert labels.names.tolist() == PATHS
            assert labels.form == PathRowFormat(3)
        assert PathTargets.from_y(TUPLES).names.tolist() == PATHS
        assert PathTargets.from_y(np.array([*TUPLES, None], object)[:-1]).names.tolist() == PATHS

    def test_numbers_in_rows(self):
        for y in (
            [(1, 20), (3,)],
            np.array([[1, 20], [3, np.nan]]),
            [[np.int8(1), np.float32(20)], [3, None]],
        ):
            assert PathTargets.from_y(y).names.tolist() == ["1/20", "3"]
        assert PathTargets.from_y(np.array([[1, 2], [1, 3]], np.uint8)).names.tolist() == ["1/2", "1/3"]

    def test_the_width_of_an_array_counts(self):
        wide = np.array([["a", "b", "", ""], ["a", "", "", ""]])
        labels = PathTargets.from_y(wide)
        assert labels.form == PathRowFormat(4)
        np.testing.assert_array_equal(PathRowFormat(4).rows(labels.names), wide)

    def test_there_and_back(self):
        rows = PathRowFormat(3).rows(PATHS)
        assert rows.dtype.kind == "U"
        np.testing.assert_array_equal(rows, PADDED)
        assert PathRowFormat(5).rows(PATHS).shape == (5, 5)
        assert PathRowFormat(3).rows([]).shape == (0, 3)
        with pytest.raises(
            InputError, match=r"^expected paths of at most 2 parts, got 'art/music/jazz' of 3$"
        ):
            PathRowFormat(2).rows(PATHS)

    @settings(deadline=None)
    @given(st.lists(st.lists(st.text("ab é", min_size=1).filter(str.strip), min_size=1, max_size=4)))
    def test_any_rows(self, rows):
        labels = PathTargets.from_y([["top", *row] for row in rows], " > ")
        assert labels.is_rows == bool(rows)
        back = PathRowFormat(max([1, *map(len, rows)]) + 1).rows(labels.names, " > ")
        assert [[part for part in row if part] for row in back.tolist()] == [["top", *row] for row in rows]

    @pytest.mark.parametrize(("y", "message"), [
        ("abc", "^expected labels .* got 'abc' of type str$"),
        (5, "got 5 of type int$"),
        (None, "got None$"),
        ({"a": "b"}, "of type dict$"),
        (np.array(3), r"got shape \(\)$"),
        (np.zeros((2, 2, 2)), r"^expected labels of shape \(n,\) or \(n, levels\), got shape \(2, 2, 2\)$"),
        ([("a", "b"), "c"], "^item 1: expected a tuple or list of the parts of a path, got 'c' of type str$"),
        (np.array([["a", "b"], ["", "b"]]), r"^item 1: expected missing levels only at the end .*\('', 'b'\)$"),
        ([("a", "b"), ("a", None, "b")], r"^item 1: .* only at the end of a path, got \('a', None, 'b'\)$"),
        ([("a", "b"), ("a", " ", "b")], "^item 1: .* only at the end"),
        ([("a", "b"), ()], r"^item 1: expected at least one part of a path, got \(\)$"),
        ([("a",), ()], "^item 1: expected at least one part"),
        (np.array([["a", "b"], ["", ""]]), r"^item 1: expected at least one part of a path, got \('', ''\)$"),
        (np.empty((2, 0)), "^item 0: expected at least one part"),
        ([("a", "b/c")], "^item 0: the part 'b/c' holds the separator '/'; choose another separator$"),
        ([("a", 1.5)], "^item 0: expected strings or whole numbers as parts of a path, got 1.5 of type float$"),
        ([("a", True)], "^item 0: .* got True of type bool$"),
        ([("a", float("inf"))], "^item 0: .* got inf"),
        ([("a", "b"), ("a", ["b"])], r"^item 1: .* got \['b'\] of type list$"),
    ])  # fmt: skip
    def test_bad_labels(self, y, message):
        with pytest.raises(InputError, match=message):
            PathTargets.from_y(y)


# ---- what is refused


@pytest.mark.parametrize(("taxonomy", "message"), [
    (5, "^expected a networkx.DiGraph, .* or None; got 5 of type int$"),
    (b"a/b", "got b'a/b' of type bytes$"),
    ("a/b/c", "^expected a networkx.DiGraph, .* or None; there is no file 'a/b/c'$"),
    (Path("gone.txt"), "there is no file 'gone.txt'$"),
    (Path("."), r"None; '\.' is a folder$"),
    ([], "at least one node"),
    ({}, "at least one node"),
    (np.empty((0, 3)), "at least one node"),
    (np.zeros((2, 2, 2)), r"shape \(n,\) or \(n, levels\), got shape \(2, 2, 2\)$"),
    (nx.Graph([(1, 2)]), "got an undirected graph$"),
    (nx.DiGraph([(1, 2), (2, 1)]), "a cycle: 1 -> 2 -> 1$"),
    ({"a": "b", "b": "a"}, "a cycle: 'b' -> 'a' -> 'b'$"),
    ({"a": "a"}, "node 'a' is its own parent$"),
    ({"a": ["b", "c"]}, r"mapping child -> parent, got \['b', 'c'\] of type list for 'a'; children of"),
    ({("a", "b"): "a"}, r"node names, got \('a', 'b'\) of type tuple"),
    ({None: "a"}, "node names, got None$"),
    ([("a", "c"), ("b", "c")], "^node 'c' has two parents: 'a' and 'b'; expected one$"),
    ([("a", "b"), (None, "c")], r"^row 1: expected a pair \(parent, child\), got \(None, 'c'\)$"),
    ([("a", "b"), ("a", "")], "^row 1: expected node names with at least one visible character, got ''$"),
    ([("a", "b"), ("a", ["c"])], r"^row 1: expected strings or finite numbers as node names, got \['c'\]"),
    ([("a", 1), ("a", "1")], "also as text, but 1 of type int and '1' of type str do not$"),
    (["a/b", "a/c; a/b"], "^path 1: expected one path, got 2 in 'a/c; a/b': .*MultilabelRanker"),
    (["a/b", "a//b"], "^path 1: expected a path without empty parts, separated by '/', got 'a//b'$"),
    (["/a"], "^path 0: .* got '/a'$"),
    (["a/"], "^path 0: .* got 'a/'$"),
    (["a", ""], "^path 1: .* got ''$"),
    (["a", 5], "^row 0: expected a tuple or list of the parts of a path, got 'a' of type str$"),
    ([5, 6], "^row 0: .* got 5 of type int$"),
    ([("a", "b", "c"), ("a", "", "c")], r"^row 1: .* only at the end of a path, got \('a', '', 'c'\)$"),
    (np.array([["a", "", "c"]]), "^row 0: expected missing levels only at the end"),
    (np.array([["a", "b"], ["", ""]]), "^row 1: expected at least one part"),
    ([("a", "b/c", "d")], "^row 0: the part 'b/c' holds the separator '/'"),
    ([("a", "b", 1.0), ("a", "c", 2.0)], r"^row 0: expected a pair \(parent, child\), without a weight, got"),
    (nx.DiGraph([("a", "b")]).edges(data=True), r"^row 0: expected a pair .*'b', \{\}\); pass the graph itself"),
])  # fmt: skip
def test_bad_taxonomies(taxonomy, message):
    with pytest.raises(InputError, match=message):
        open_taxonomy(taxonomy, ["a"])


@pytest.mark.parametrize(("labels", "message"), [
    (None, "^expected a taxonomy, or labels to infer it from, got no labels$"),
    ([], "got no labels$"),
    (["x", "a/b", "a//b"], "^item 2: expected a path without empty parts, separated by '/', got 'a//b'$"),
    (["a", 1], "^expected labels of one kind, all strings or all numbers, got a mixture$"),
    ([None, None], "node names, got None$"),
    (np.array([1.0, np.nan]), "node names, got nan"),
    (["a", ""], "at least one visible character, got ''$"),
])  # fmt: skip
def test_labels_that_give_no_taxonomy(labels, message):
    with pytest.raises(InputError, match=message):
        open_taxonomy(None, labels)


@pytest.mark.parametrize("separator", ["", None, 5])
def test_bad_separators(separator):
    for call in (
        lambda: open_taxonomy(PATHS, PATHS, separator),
        lambda: PathTargets.from_y(PATHS, separator),
    ):
        with pytest.raises(InputError, match=r"^expected a separator of one or more characters, got "):
            call()


@pytest.mark.parametrize(("text", "message"), [
    (b"", ": expected a taxonomy of at least one node, got none"),
    (b"# nothing\n\n", ": expected a taxonomy of at least one node, got none"),
    (b"a/b\n#\na//b\n", ", line 3: expected a path without empty parts, separated by '/', got 'a//b'"),
    (b"a b\n\nc b\n", ", line 3: node 'b' has the parent 'c', but 'a' in line 1; expected one"),
    (b"a b\nb b\n", ", line 2: node 'b' is its own parent"),
    (b"a a\n", ", line 1: node 'a' is its own parent"),
    (b"1 2 3\n3 1\n", ": the taxonomy has a cycle: '1' -> '2' -> '3' -> '1'"),
    (b"a b\n\xff c\n", ", line 2: not UTF-8 text"),
    (b"\x1f\x8bbroken", ": the gzip file is "),
])  # fmt: skip
def test_bad_files(tmp_path, text, message):
    file = tmp_path / "tree.txt"
    file.write_bytes(text)
    with pytest.raises(DataError) as caught:
        open_taxonomy(file)
    assert str(caught.value).startswith(f"{file}{message}")


def test_a_missing_file(tmp_path):
    with pytest.raises(CrfqnError, match="no such file"):
        read_taxonomy_file(tmp_path / "gone.txt")


# ---- real taxonomies

NEWSGROUPS = """
alt.atheism comp.graphics comp.os.ms-windows.misc comp.sys.ibm.pc.hardware comp.sys.mac.hardware
comp.windows.x misc.forsale rec.autos rec.motorcycles rec.sport.baseball rec.sport.hockey sci.crypt sci.electronics
sci.med sci.space soc.religion.christian talk.politics.guns talk.politics.mideast talk.politics.misc
talk.religion.misc
""".split()  # noqa: SIM905


def test_newsgroups():
    tree = open_taxonomy(None, NEWSGROUPS, separator=".")
    assert (tree.n_nodes, tree.leaves.size) == (38, 20)
    small = tree.collapsed(NEWSGROUPS)
    assert sorted(small.names[k] for k in small.leaves) == NEWSGROUPS
    parent_of = parents_by_name(small)
    inner = {"comp", "comp.sys", "rec", "rec.sport", "sci", "talk", "talk.politics"}
    assert set(parent_of) == {*NEWSGROUPS, *inner}
    assert parent_of["alt.atheism"] is parent_of["soc.religion.christian"] is None
    assert parent_of["comp.sys.mac.hardware"] == "comp.sys"
    assert parent_of["comp.os.ms-windows.misc"] == "comp"
    assert parent_of["talk.religion.misc"] == "talk"


@pytest.mark.skipif("CRFQN_DATA" not in os.environ, reason="needs the LSHTC data in CRFQN_DATA")
def test_lshtc():
    file = next(iter(sorted(Path(os.environ["CRFQN_DATA"]).glob("**/cat_hier.txt*"))), None)
    if file is None:
        pytest.skip("needs cat_hier.txt in CRFQN_DATA")
    tree = open_taxonomy(file)
    assert (tree.n_nodes, tree.leaves.size, int((tree.parents < 0).sum())) == (2387, 1139, 10)
    assert np.bincount(tree.depths[tree.leaves] + 1).tolist() == [0, 0, 0, 42, 246, 851]
    lines = gzip.decompress(file.read_bytes()) if file.suffix == ".gz" else file.read_bytes()
    for line in lines.decode().splitlines():
        chain = line.split()
        assert [tree.names[k] for k in tree.path(tree.node_of(chain[-1]))] == chain


def test_a_semicolon_within_a_part_is_no_list_of_paths():
    paths = ["a/b; c/d", "a; b/c", "e/f"]
    assert {*paths} <= {*open_taxonomy(None, paths).names}
