"""Taxonomy of labels: a forest of named nodes in level order, checked once, when it is made.

Several tops make a forest; the virtual root above them is not a node. Level order: nodes by depth, the children of a
node adjacent, otherwise in order of first appearance. Node k's parent is parents[k] < k, or -1 at the top; K nodes.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from crfqn.errors import InputError
from crfqn.messages import describe, shorten

if TYPE_CHECKING:  # imports take a third of a second, which flat models do not need
    import networkx as nx
    from scipy.sparse import csr_array

NO_PARENT = -1  # the parent of a top node
MAX_SHOWN_NAMES = 3  # of a list of names in an error message
# Of all nodes, themselves included: K times the mean level. Tables of ancestors hold as many numbers, 0.4 GB. The
# largest taxonomies in use, of a million nodes in 20 levels, stay below; a single path may have 9,999 levels.
MAX_ANCESTORS = 50_000_000


@dataclass(frozen=True, eq=False)
class LabelTree:
    """Taxonomy of labels: a checked forest of named nodes in level order.

    Parameters
    ----------
    names : sequence of str, int, float or bool, length K
        Distinct, also as text: 1 and "1" together are an error. They are converted to Python's types.
    parents : array-like of int, shape (K,)
        Level order: ascending, and parents[k] < k; -1 for a top node.

    Raises
    ------
    InputError
        For no nodes, invalid names, parents out of level order.

    Examples
    --------
    >>> tree = LabelTree.from_edges([("sport", "tennis"), ("sport", "golf"), (None, "art")])
    >>> tree.names, tree.parents.tolist()
    (('sport', 'art', 'tennis', 'golf'), [-1, -1, 0, 0])
    >>> [tree.names[k] for k in tree.path(tree.node_of("golf"))]
    ['sport', 'golf']
    """

    names: tuple[Hashable, ...]
    parents: NDArray[np.int32]
    n_nodes: int = field(init=False)  # number of nodes, K

    def __post_init__(self) -> None:
        names = tuple(map(plain_name, self.names))
        parents = np.array(self.parents, np.int32)
        if not names:
            raise InputError("expected a taxonomy of at least one node, got none")
        if parents.shape != (len(names),):
            raise InputError(
                f"expected a parent for each of the {len(names)} nodes, got parents of shape {parents.shape}"
            )
        is_ordered = (parents[1:] >= parents[:-1]).all() and (parents < np.arange(parents.size)).all()
        if not is_ordered or parents[0] < NO_PARENT:
            raise InputError(
                "expected parents in level order: -1 for top nodes, ascending, each before its children"
            )
        if not len(set(names)) == len(set(map(str, names))) == len(names):
            seen: dict[Hashable, Hashable] = {}
            for name in names:
                other = seen.get(name, seen.get(("text", str(name))))
                if other is not None:
                    raise InputError(
                        f"expected distinct node names, but {shorten(name)} comes twice"
                        if type(other) is type(name)
                        else f"node names must differ, also as text, but {describe(other)} and {describe(name)} do not"
                    )
                seen[name] = seen["text", str(name)] = name
        object.__setattr__(self, "names", names)
        object.__setattr__(self, "parents", parents)
        object.__setattr__(self, "n_nodes", len(names))

    @classmethod
    def from_graph(cls, graph: nx.DiGraph) -> LabelTree:
        """Return the tree of a directed graph, its edges from parent to child, checked and put into level order.

        InputError, naming nodes: not a directed graph, no nodes, invalid names, a cycle, a node with two parents.
        """
        import networkx as nx

        if not isinstance(graph, nx.Graph) or not graph.is_directed():
            kind = "an undirected graph" if isinstance(graph, nx.Graph) else describe(graph)
            raise InputError(f"expected a directed graph, its edges from parent to child, got {kind}")
        names = list(graph)
        number_of = {name: k for k, name in enumerate(names)}
        above = [list(islice(graph.pred[name], 2)) for name in names]
        parents = [
            number_of[parents_of_node[0]] if parents_of_node else NO_PARENT for parents_of_node in above
        ]
        order = _level_order(parents)
        if len(order) < len(names) or any(len(parents_of_node) > 1 for parents_of_node in above):
            refuse_shape(graph)
        return _arranged(names, parents, order)

    @classmethod
    def from_edges(cls, edges: Iterable[tuple[Any, Any]]) -> LabelTree:
        """Return the tree of pairs (parent, child), or (None, top); pairs may be repeated."""
        import networkx as nx

        graph = nx.DiGraph()
        for parent, child in edges:
            if parent is None:
                graph.add_node(plain_name(child))
            else:
                graph.add_edge(plain_name(parent), plain_name(child))
        return cls.from_graph(graph)

    @classmethod
    def star(cls, names: Iterable[Hashable]) -> LabelTree:
        """Return a tree without inner nodes: every name is a top node and a leaf."""
        names = tuple(names)
        return cls(names, np.full(len(names), NO_PARENT, np.int32))

    @cached_property
    def depths(self) -> NDArray[np.int32]:
        """Number of ancestors of each node, int32 (K,): 0 for a top node, ascending."""
        depths = np.zeros(self.n_nodes, np.int32)
        start, stop = 0, int(np.searchsorted(self.parents, 0))
        while stop < self.n_nodes:  # parents ascend, so the children of a level are one run of nodes
            start, stop = stop, int(np.searchsorted(self.parents, np.int32(stop)))
            depths[start:stop] = depths[start - 1] + 1
        return depths

    @cached_property
    def is_leaf(self) -> NDArray[np.bool_]:
        """Whether each node is without children, bool (K,)."""
        is_leaf = np.ones(self.n_nodes, bool)
        is_leaf[self.parents[self.parents != NO_PARENT]] = False
        return is_leaf

    @cached_property
    def leaves(self) -> NDArray[np.int64]:
        """Numbers of the nodes without children, ascending, shape (n_leaves,)."""
        return np.flatnonzero(self.is_leaf)

    def node_of(self, name: Hashable) -> int:
        """Return the number of the node with this name."""
        return int(self.nodes_of([name])[0])

    def nodes_of(self, names: Iterable[Hashable] | NDArray) -> NDArray[np.int32]:
        """Return the numbers of the nodes with these names, shape (n,); InputError for names that no node has."""
        if isinstance(names, str) or not isinstance(names, Iterable):
            raise InputError(f"expected a list of node names, got {describe(names)}")
        values: list = names.tolist() if isinstance(names, np.ndarray) else list(names)
        try:
            return np.fromiter(map(self._number_of.__getitem__, values), np.int32, len(values))
        except (KeyError, TypeError):
            unknown = dict.fromkeys(name for name in map(plain_name, values) if name not in self._number_of)
        import difflib

        first = next(iter(unknown))
        text_of = {str(name): name for name in self.names}
        near = difflib.get_close_matches(str(first), text_of, n=1)
        hint = ""
        if near:
            other = text_of[near[0]]
            shown = shorten(other) if type(other) is type(first) else describe(other)
            hint = f"; the name closest to {shorten(first)} is {shown}"
        raise InputError(f"the taxonomy of {self.n_nodes} nodes has no node named {listed(unknown)}{hint}")

    def path(self, node: int) -> NDArray[np.int64]:
        """Return the numbers of the nodes from the top down to a node, itself included, shape (n,)."""
        path = []
        while node != NO_PARENT:
            path.append(node)
            node = int(self.parents[node])
        return np.array(path[::-1], np.int64)

    def check_depth(self) -> None:
        """Raise InputError if the nodes have more than MAX_ANCESTORS ancestors, the size of `ancestors`."""
        check_depth_of(int(self.depths[-1]) + 1, int((self.depths + 1).sum(dtype=np.int64)))

    def ancestors(self) -> csr_array:
        """Return the ancestors of all nodes: row k of a boolean (K, K) matrix holds k and all its ancestors, indices
        sorted, so that a row is the tree path from the top to the node. Cost and size: the sum of the depths."""
        from scipy.sparse import csr_array

        self.check_depth()
        ends = np.cumsum(self.depths + 1, dtype=np.int64)
        indices = np.empty(ends[-1], np.int32)
        node, slot = np.arange(self.n_nodes, dtype=np.int32), ends - 1
        while node.size:
            indices[slot] = node
            above = self.parents[node]
            has_parent = above != NO_PARENT
            node, slot = above[has_parent], slot[has_parent] - 1
        bounds = np.concatenate([np.zeros(1, np.int64), ends])
        return csr_array((np.ones(indices.size, bool), indices, bounds), shape=(self.n_nodes, self.n_nodes))

    def to_networkx(self) -> nx.DiGraph:
        """Return the graph of the names, edges from parent to child; `from_graph` returns this tree again."""
        import networkx as nx

        graph = nx.DiGraph()
        graph.add_nodes_from(self.names)
        names, parents = self.names, self.parents.tolist()
        graph.add_edges_from(
            (names[parent], name) for parent, name in zip(parents, names, strict=True) if parent != NO_PARENT
        )
        return graph

    def collapsed(self, keep: Iterable[Hashable] | NDArray = ()) -> LabelTree:
        """Return the tree without its inner nodes of a single child, except those to keep, such as labels.

        A child moves up to the nearest ancestor that is kept, or becomes a top node.
        """
        n_children = np.bincount(self.parents[self.parents != NO_PARENT], minlength=self.n_nodes)
        stays = n_children != 1
        stays[self.nodes_of(keep)] = True
        names: list[Hashable] = []
        parents: list[int] = []
        nearest: list[int] = []  # that is kept, of each node, itself included
        for name, parent, is_kept in zip(self.names, self.parents.tolist(), stays.tolist(), strict=True):
            above = nearest[parent] if parent != NO_PARENT else NO_PARENT
            nearest.append(len(names) if is_kept else above)
            if is_kept:
                names.append(name)
                parents.append(above)
        return _arranged(names, parents, _level_order(parents))

    def __repr__(self) -> str:
        n_tops = int(np.searchsorted(self.parents, 0))
        return (
            f"LabelTree({self.n_nodes} nodes: {n_tops} tops, {self.leaves.size} leaves, "
            f"{int(self.depths[-1]) + 1} levels)"
        )

    def __reduce__(self) -> tuple:
        return LabelTree, (self.names, self.parents)

    @cached_property
    def _number_of(self) -> dict[Hashable, int]:
        return {name: k for k, name in enumerate(self.names)}


def _level_order(parents: Sequence[int]) -> list[int]:
    """Return node numbers breadth first; nodes on or below a cycle are left out."""
    children: list[list[int]] = [[] for _ in parents]
    order: list[int] = []
    for k, parent in enumerate(parents):
        (order if parent == NO_PARENT else children[parent]).append(k)
    for k in order:  # grows during the loop
        order.extend(children[k])
    return order


def _arranged(names: Sequence[Hashable], parents: Sequence[int], order: list[int]) -> LabelTree:
    """Return the tree whose node k is node order[k] of this one."""
    position = {k: new for new, k in enumerate([NO_PARENT, *order], NO_PARENT)}
    return LabelTree(
        tuple(names[k] for k in order), np.array([position[parents[k]] for k in order], np.int32)
    )


def plain_name(name: object) -> Hashable:
    """Return a node's name as Python's str, int, float or bool; InputError for anything else."""
    if isinstance(name, str):
        if not name.strip():
            raise InputError(f"expected node names with at least one visible character, got {name!r}")
        return str.__str__(name)
    if isinstance(name, np.generic):
        name = name.item()
    if not isinstance(name, (int, float)) or not math.isfinite(name):
        hint = "; the parts of a path are joined to one name, as in 'a/b'" if isinstance(name, tuple) else ""
        raise InputError(f"expected strings or finite numbers as node names, got {describe(name)}{hint}")
    return name


def listed(names: Iterable[Hashable]) -> str:
    """Return names for a message: the first ones, and how many more there are."""
    every = list(names)
    shown = [shorten(name) for name in every[:MAX_SHOWN_NAMES]]
    last = f"{len(every) - MAX_SHOWN_NAMES} more" if len(every) > MAX_SHOWN_NAMES else shown.pop()
    return f"{', '.join(shown)} and {last}" if shown else last


def check_depth_of(n_levels: int, n_ancestors: int, place: str = "") -> None:
    """Raise InputError for more than MAX_ANCESTORS ancestors: their memory is quadratic in the number of levels."""
    if n_ancestors > MAX_ANCESTORS:
        raise InputError(
            f"{place}the taxonomy is too deep: with {n_levels:,} levels, its nodes have {n_ancestors:,} ancestors; "
            f"expected at most {MAX_ANCESTORS:,}, those of one path of {math.isqrt(2 * MAX_ANCESTORS) - 1:,} levels"
        )


def refuse_shape(graph: nx.DiGraph) -> NoReturn:
    """Raise InputError naming a cycle, or else a node with two parents (those near a cycle are caused by it)."""
    import networkx as nx

    own_parent = next(nx.nodes_with_selfloops(graph), None)
    if own_parent is not None:
        raise InputError(f"node {shorten(own_parent)} is its own parent")
    knot = next((part for part in nx.strongly_connected_components(graph) if len(part) > 1), None)
    if knot is not None:
        node = next(name for name in graph if name in knot)  # there is always a parent in the part
        steps: dict[Hashable, int] = {}
        while node not in steps:
            steps[node] = len(steps)
            node = next(name for name in graph.pred[node] if name in knot)
        shown = [shorten(name) for name in [node, *list(steps)[: steps[node] : -1], node]]
        if len(shown) > 3 * MAX_SHOWN_NAMES:
            shown[MAX_SHOWN_NAMES:-2] = [f"... {len(shown) - MAX_SHOWN_NAMES - 2} more ..."]
        raise InputError(f"the taxonomy has a cycle: {' -> '.join(shown)}")
    child = next(name for name in graph if len(graph.pred[name]) > 1)
    count = {2: "two"}.get(len(graph.pred[child]), str(len(graph.pred[child])))
    raise InputError(f"node {shorten(child)} has {count} parents: {listed(graph.pred[child])}; expected one")
