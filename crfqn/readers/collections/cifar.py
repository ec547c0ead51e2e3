"""CIFAR-10's binary files: records of a label and an image, a byte a number (Krizhevsky 2009)."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from crfqn.data.files.lines import read_bytes
from crfqn.errors import DataError
from crfqn.readers.documents import Documents, concatenate

PIXELS = 3 * 32 * 32  # red, green, blue; row by row
N_CLASSES = 10
WHITE = 255.0


def read_cifar(*paths: str | Path) -> Documents:
    """Read parts of the training images, and then the test images.

    Returns
    -------
    Documents
        `inputs` is a float32 csr_array (images, 3072) of values from 0 to 1; labels "0" to "9".

    Raises
    ------
    DataError
        A size that is no number of records, or a label above 9 (the file is named).
    """
    parts = [_read(path) for path in paths]
    train = parts[0]
    for part in parts[1:-1]:
        train = Documents(*_joined(train, part))
    return train if len(parts) == 1 else concatenate(train, parts[-1])


def _joined(first: Documents, second: Documents) -> tuple:
    from scipy.sparse import vstack

    return vstack([first.inputs, second.inputs], format="csr"), [*first.labels, *second.labels]


def _read(path: str | Path) -> Documents:
    from scipy.sparse import csr_array

    content = np.frombuffer(read_bytes(path), np.uint8)
    if content.size == 0 or content.size % (PIXELS + 1):
        raise DataError(f"{path}: expected records of {PIXELS + 1} bytes, got {content.size:,} bytes")
    records = content.reshape(-1, PIXELS + 1)
    labels = records[:, 0]
    if labels.max() >= N_CLASSES:
        raise DataError(f"{path}: expected labels 0 to {N_CLASSES - 1}, got {labels.max()}")
    matrix = csr_array(records[:, 1:].astype(np.float32))
    matrix.data /= np.float32(WHITE)
    return Documents(matrix, [str(label) for label in labels])
