"""Shape of a taxonomy: a forest without cycles, every node with one parent, and not too deep."""

from __future__ import annotations

import math
from collections.abc import Hashable
from typing import TYPE_CHECKING, NoReturn

from crfqn.errors import InputError
from crfqn.taxonomy.node_names import MOST_SHOWN, listed
from crfqn.wording import shorten

if TYPE_CHECKING:
    import networkx as nx

# Of all nodes, themselves included: K times the mean level. Tables of ancestors hold as many numbers, 0.4 GB. The
# largest taxonomies in use, of a million nodes in 20 levels, stay below; a single path may have 9,999 levels.
MOST_ANCESTORS = 50_000_000


def check_depth_of(n_levels: int, n_ancestors: int, place: str = "") -> None:
    """Raise InputError for more than MOST_ANCESTORS ancestors: their memory grows by the square of the levels."""
    if n_ancestors > MOST_ANCESTORS:
        raise InputError(
            f"{place}the taxonomy is too deep: with {n_levels:,} levels, its nodes have {n_ancestors:,} ancestors; "
            f"expected at most {MOST_ANCESTORS:,}, those of one path of {math.isqrt(2 * MOST_ANCESTORS) - 1:,} levels"
        )


def refuse_shape(graph: nx.DiGraph) -> NoReturn:
    """Raise InputError naming a cycle, or else a node with two parents, which around a cycle is only a symptom."""
    import networkx as nx

    own_parent = next(nx.nodes_with_selfloops(graph), None)
    if own_parent is not None:
        raise InputError(f"node {shorten(own_parent)} is its own parent")
    knot = next((part for part in nx.strongly_connected_components(graph) if len(part) > 1), None)
    if knot is not None:
        raise InputError(f"the taxonomy has a cycle: {_shown_cycle(graph, knot)}")
    child = next(name for name in graph if len(graph.pred[name]) > 1)
    count = {2: "two"}.get(len(graph.pred[child]), str(len(graph.pred[child])))
    raise InputError(f"node {shorten(child)} has {count} parents: {listed(graph.pred[child])}; expected one")


def _shown_cycle(graph: nx.DiGraph, knot: set[Hashable]) -> str:
    """Return a cycle of a strongly connected part in words, found upwards: there is always a parent in the part."""
    node = next(name for name in graph if name in knot)
    steps: dict[Hashable, int] = {}
    while node not in steps:
        steps[node] = len(steps)
        node = next(name for name in graph.pred[node] if name in knot)
    shown = [shorten(name) for name in [node, *list(steps)[: steps[node] : -1], node]]
    if len(shown) > 3 * MOST_SHOWN:
        shown[MOST_SHOWN:-2] = [f"... {len(shown) - MOST_SHOWN - 2} more ..."]
    return " -> ".join(shown)


def check_root(graph: nx.DiGraph, root: Hashable) -> None:
    import networkx as nx

    if root not in graph:
        raise InputError(f"the root {shorten(root)} is not among the {len(graph)} nodes of the graph")
    reached = nx.descendants(graph, root) | {root}
    missed = [name for name in graph if name not in reached]
    if missed:
        raise InputError(
            f"{len(missed)} of {len(graph)} nodes cannot be reached from the root {shorten(root)}: {listed(missed)}"
        )
