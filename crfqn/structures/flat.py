"""The flat structure: one label an item, no label above another, so that inference is a softmax.

It is the taxonomy whose nodes are all at the top, and the chain of length one: three ways to the same numbers.
"""

from __future__ import annotations

import numpy as np

from crfqn.errors import InputError
from crfqn.structures.taxonomy import Taxonomy


def flat(n_classes: int, n_items: int) -> Taxonomy:
    """Return the structure of items with one label each of `n_classes`, without a taxonomy."""
    if n_classes < 1:
        raise InputError(f"a flat structure needs at least one class, got n_classes = {n_classes}")
    return Taxonomy(np.full(n_classes, -1, np.int32), np.ones(n_classes, bool), n_items)
