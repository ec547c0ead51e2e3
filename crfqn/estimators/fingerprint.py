"""A fingerprint of the training data, so that a model file can say what it was trained on."""

from __future__ import annotations

import hashlib

import numpy as np
from numpy.typing import NDArray

from crfqn.features import FeatureStore


def fingerprint(store: FeatureStore, targets: NDArray[np.int32]) -> str:
    """BLAKE2b over features, item boundaries and labels, 32 hexadecimal digits; the same on every machine."""
    digest = hashlib.blake2b(digest_size=16)
    for array in (store.indptr, store.indices, store.values, store.offsets, targets):
        digest.update(f"{array.dtype.newbyteorder('<').str}{array.shape}".encode())
        digest.update(np.ascontiguousarray(array, array.dtype.newbyteorder("<")).data)
    return digest.hexdigest()
