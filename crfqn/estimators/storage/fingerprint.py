"""A fingerprint of the training data, so that a model file can say what it was trained on."""

from __future__ import annotations

import hashlib
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from crfqn.data.features import FeatureStore
from crfqn.threads import Pool

DIGITS = 32  # hexadecimal, of the 64
CHUNK = 1 << 20  # bytes that one thread takes at a time


def fingerprint(store: FeatureStore, targets: NDArray[np.int32], n_threads: int | None = None) -> str:
    """SHA-256 over features, item boundaries and labels, 32 hexadecimal digits; the same on every machine.

    Of each array: its type, its shape, and the digests of its chunks, which threads share.
    """
    arrays = [
        np.ascontiguousarray(array, array.dtype.newbyteorder("<"))
        for array in (store.indptr, store.indices, store.values, store.offsets, targets)
    ]
    chunks = [_chunks(array) for array in arrays]
    digests = iter(_digests([chunk for own in chunks for chunk in own], n_threads))
    digest = hashlib.sha256()
    for array, own in zip(arrays, chunks, strict=True):
        digest.update(f"{array.dtype.str}{array.shape}".encode())
        digest.update(b"".join(islice(digests, len(own))))
    return digest.hexdigest()[:DIGITS]


def _chunks(array: NDArray) -> list[NDArray[np.uint8]]:
    """The array's bytes, in stretches."""
    content = array.view(np.uint8)
    return [content[first : first + CHUNK] for first in range(0, content.size, CHUNK)]


def _digests(chunks: list[NDArray[np.uint8]], n_threads: int | None) -> list[bytes]:
    """Of each chunk."""
    found = [b""] * len(chunks)

    def compute(k: int) -> None:
        found[k] = hashlib.sha256(chunks[k].data).digest()

    with Pool(n_threads) as pool:
        pool.each(len(chunks), compute)
    return found
