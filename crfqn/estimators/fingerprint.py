"""A fingerprint of the training data, so that a model file can say what it was trained on."""

from __future__ import annotations

import hashlib

import numpy as np
from numpy.typing import NDArray

from crfqn.features import FeatureStore
from crfqn.threads import Pool

DIGEST_SIZE = 16  # bytes
CHUNK = 1 << 23  # bytes that one thread takes at a time


def fingerprint(store: FeatureStore, targets: NDArray[np.int32], n_threads: int | None = None) -> str:
    """BLAKE2b over features, item boundaries and labels, 32 hexadecimal digits; the same on every machine.

    Of each array: its type, its shape, and the digests of its chunks, which threads share.
    """
    digest = hashlib.blake2b(digest_size=DIGEST_SIZE)
    with Pool(n_threads) as pool:
        for array in (store.indptr, store.indices, store.values, store.offsets, targets):
            dtype = array.dtype.newbyteorder("<")
            digest.update(f"{dtype.str}{array.shape}".encode())
            digest.update(b"".join(_digests(np.ascontiguousarray(array, dtype), pool)))
    return digest.hexdigest()


def _digests(array: NDArray, pool: Pool) -> list[bytes]:
    """Of each chunk of the array's bytes, in their order."""
    content = array.view(np.uint8)
    chunks = [content[first : first + CHUNK] for first in range(0, content.size, CHUNK)]
    found = [b""] * len(chunks)

    def compute(part: int) -> None:
        found[part] = hashlib.blake2b(chunks[part].data, digest_size=DIGEST_SIZE).digest()

    pool.each(len(chunks), compute)
    return found
