"""Weights of a chain by the names of labels and attributes: what the formats of other CRF tools hold.

The file's order of labels and attributes is kept: it decides ties, and the same weights give the same file again.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from crfqn.data.model_file import ModelFile
from crfqn.data.templates.vocabulary import TemplateSource
from crfqn.data.vocabulary import NO_VALUE, UNKNOWN_VALUE
from crfqn.errors import ModelFileError
from crfqn.model.content import BIGRAMS, CHAIN, FEATURE, FROM, STATE, TO, TRANSITION, VALUE_STARTS


class SparseTable(NamedTuple):
    """Non-zero entries of a table: two arrays of int64 and one of float64, of one length."""

    rows: NDArray[np.int64]
    columns: NDArray[np.int64]
    values: NDArray[np.float64]


NO_WEIGHTS = SparseTable(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0))


class ChainWeights(NamedTuple):
    """Weights of a chain: tables of attributes x labels, of labels x labels, from x to, and of attributes x pairs of
    labels, as `EdgeLayout` numbers these."""

    labels: list[str]
    attributes: list[str]
    state: SparseTable
    transition: SparseTable
    bigram: SparseTable = NO_WEIGHTS

    def file(self, path: str, source: TemplateSource | None = None, naming: str | None = None) -> ModelFile:
        """Return the content of a model file of a chain with these weights, without what training leaves: for token
        columns where the templates `source` make its attributes, for dicts otherwise, by `naming`. ModelFileError,
        naming the path, where a pair of names has two weights, which a sparse matrix would add up."""
        node, edge, n_labels = self.state, self.transition, len(self.labels)
        for table in (node, edge, self.bigram):
            stride = table.columns.max(initial=0) + 1
            if np.unique(table.rows * stride + table.columns).size < table.rows.size:
                raise ModelFileError(f"{path}: the file is damaged: a pair of names has two weights")
        arrays: dict[str, NDArray] = {
            f"node_{STATE}": node.columns,
            f"node_{FEATURE}": node.rows,
            "node_weight": node.values,
            f"edge_{FROM}": edge.rows,
            f"edge_{TO}": edge.columns,
            "edge_weight": edge.values,
        }
        if self.bigram.values.size:
            arrays |= {
                f"{BIGRAMS}_{TRANSITION}": self.bigram.columns,
                f"{BIGRAMS}_{FEATURE}": self.bigram.rows,
                f"{BIGRAMS}_weight": self.bigram.values,
            }
        strings = {"classes": self.labels, "feature_names": self.attributes}
        metadata: dict[str, Any] = {
            "n_features": len(self.attributes),
            "n_classes": n_labels,
            "settings": {},
            "extra": {},
        }
        if source is not None:
            metadata["templates"] = source.as_dict()
        elif naming is not None:
            metadata["naming"] = naming
        else:
            arrays[VALUE_STARTS] = np.full(len(self.attributes), NO_VALUE - UNKNOWN_VALUE, np.uint8)
        return ModelFile(CHAIN, arrays, strings, metadata, path)
