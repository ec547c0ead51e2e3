"""Expected content of a dataset: counts, and a checksum that neither file format nor order of items changes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from crfqn.readers.documents import Documents
from crfqn.readers.labeled import Labeled


@dataclass(frozen=True)
class Content:
    """Expected counts of a dataset; None where there is nothing to count.

    Attributes
    ----------
    n_items, n_labels : int
    n_train : int or None
        Items of the training part that the data brings.
    n_positions, n_distinct_items : int or None
        Positions and distinct label sequences of sequence data.
    n_features : int or None
        Columns that have an entry in the training part.
    n_nodes : int or None
        Nodes of the taxonomy.
    sha256 : str
        `Labeled.digest()` or `Documents.digest()`; empty where it is not the same everywhere, or not known.
    at_least : bool
        The counts are floors, since the data depends on what is installed, or is not known that well.
    """

    n_items: int
    n_labels: int
    n_train: int | None = None
    n_positions: int | None = None
    n_distinct_items: int | None = None
    n_features: int | None = None
    n_nodes: int | None = None
    sha256: str = ""
    at_least: bool = False

    def differences(self, data: Labeled | Documents) -> str:
        """Return the counts that differ, in words; empty when all agree."""
        at_least = "at least " if self.at_least else ""
        return ", ".join(
            f"{'no' if got is None else got} {what} (expected {at_least}{expected})"
            for what, expected, got in self._counts(data)
            if got is None or (got < expected if self.at_least else got != expected)
        )

    def _counts(self, data: Labeled | Documents) -> Iterator[tuple[str, int, int | None]]:
        """Yield, for each kind of count, its name, the number that there is, and the expected one (None: any)."""
        expected = {
            "items": self.n_items,
            "training items": self.n_train,
            "positions": self.n_positions,
            "different items": self.n_distinct_items,
            "labels": self.n_labels,
            "features": self.n_features,
            "nodes": self.n_nodes,
        }
        found = counts(data)
        return ((what, n, found.get(what)) for what, n in expected.items() if n is not None)


def counts(data: Labeled | Documents) -> dict[str, int]:
    """Return the sizes of a dataset's data by name (items, labels, ...), for messages and checks."""
    found = {"items": data.n_items, "labels": len(data.distinct_labels())}
    if data.n_train is not None:
        found["training items"] = data.n_train
    if isinstance(data, Labeled):
        return found | {"positions": data.n_positions, "different items": data.n_distinct_items()}
    if data.taxonomy is not None:
        found["nodes"] = data.taxonomy.n_nodes
    if not isinstance(data.inputs, list):
        found["features"] = np.unique(data.inputs[: data.n_train].indices).size
    return found
