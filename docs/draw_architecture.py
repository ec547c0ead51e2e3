#!/usr/bin/env python
"""The rooms of the library and their imports, drawn from the imports themselves: docs/architecture.svg.

    python docs/draw_architecture.py

A box is a folder below `crfqn/`, or one of its files; what it imports stands below it. An arrow that
follows from two others is left out: what a room imports, it may reach by going down.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from pathlib import Path

import grimp
import networkx as nx
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure

PICTURE = Path(__file__).with_name("architecture.svg")
SPACING, HEIGHT = 1.25, 0.3  # of boxes; a floor is 1 high


def rooms() -> nx.DiGraph:
    """Return the folders and files below the package, with an edge from each to those that it imports."""
    imports = grimp.build_graph("crfqn", cache_dir=None)
    found = nx.DiGraph()
    found.add_nodes_from(
        sorted(room_of(child) for child in imports.find_children("crfqn"))
    )
    for module in imports.modules - {"crfqn"}:
        targets = {
            room_of(name)
            for name in imports.find_modules_directly_imported_by(module)
            if name != "crfqn"
        }
        found.add_edges_from(
            (room_of(module), target) for target in targets - {room_of(module)}
        )
    return found


def room_of(module: str) -> str:
    """Return the folder or file right below the package that a module belongs to."""
    return module.split(".")[1]


def arrows(graph: nx.DiGraph) -> list[str]:
    """Return the edges that don't follow from others, as text, sorted; NetworkXError where there is a circle."""
    return sorted(
        f"{above} -> {below}"
        for above, below in nx.transitive_reduction(graph).edges
    )


def places(graph: nx.DiGraph) -> dict[str, tuple[float, float]]:
    """Return where each room stands: as high as its longest way down, a floor ordered by what stands below."""
    floors: dict[int, list[str]] = defaultdict(list)
    reduced = nx.transitive_reduction(graph)
    height = dict.fromkeys(graph, 0)
    for name in reversed([*nx.topological_sort(reduced)]):
        height[name] = 1 + max(
            (height[below] for below in reduced[name]), default=-1
        )
        floors[height[name]].append(name)
    placed: dict[str, tuple[float, float]] = {}
    for floor, names in sorted(floors.items()):
        names.sort(
            key=lambda name: (
                sum(placed[below][0] for below in reduced[name])
                / max(len(reduced[name]), 1),
                name,
            )
        )
        for i, name in enumerate(names):
            placed[name] = (SPACING * (i - (len(names) - 1) / 2), float(floor))
    return placed


def draw(axes: Axes, graph: nx.DiGraph) -> None:
    """Draw boxes and arrows."""
    placed = places(graph)
    for above, below in nx.transitive_reduction(graph).edges:
        (x, y), (to_x, to_y) = placed[above], placed[below]
        axes.annotate(
            "",
            (to_x, to_y + HEIGHT / 2),
            (x, y - HEIGHT / 2),
            arrowprops={"arrowstyle": "->", "color": "0.45", "linewidth": 0.8},
        )
    for name, (x, y) in placed.items():
        axes.text(
            x,
            y,
            name,
            ha="center",
            va="center",
            fontsize=8,
            bbox={
                "boxstyle": "round",
                "facecolor": "#eef3fa",
                "edgecolor": "#5b7aa5",
            },
        )
    xs = [x for x, _ in placed.values()]
    axes.set(
        xlim=(min(xs) - 0.8, max(xs) + 0.8),
        ylim=(-0.5, max(y for _, y in placed.values()) + 0.5),
    )
    axes.axis("off")


def main() -> None:
    """Write the picture, with its arrows as the description."""
    graph = rooms()
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": "crfqn"}):
        figure = Figure(figsize=(10, 8), layout="constrained")
        draw(figure.subplots(), graph)
        figure.savefig(
            PICTURE,
            metadata={"Date": None, "Description": "; ".join(arrows(graph))},
        )
    sys.stdout.write(f"{PICTURE.name}: {len(graph)} rooms\n")


if __name__ == "__main__":
    main()
