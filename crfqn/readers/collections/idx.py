"""Readers of idx files, the format of MNIST: a header of big-endian numbers, then bytes.

The header is 0, 0, the type of the numbers (8: unsigned bytes), the number of dimensions (a byte each), and
the size of each dimension (4 bytes). Format and data: LeCun, Cortes and Burges, *The MNIST database*.
"""

from __future__ import annotations

import math
import struct
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from crfqn.data.files.lines import read_bytes
from crfqn.errors import DataError
from crfqn.readers.documents import Documents

UNSIGNED_BYTES = 8
WHITE = 255


def read_idx(path: str | Path) -> NDArray[np.uint8]:
    """Read an idx file of unsigned bytes, plain or gzip-compressed.

    Returns
    -------
    numpy.ndarray
        Read-only, of the dimensions that the file states.

    Raises
    ------
    DataError
        Another format, another type of numbers, or a size that differs from the stated one (the file is named).
    """
    content = read_bytes(path)
    if len(content) < 4 or content[:2] != b"\0\0" or content[3] == 0:
        raise DataError(f"{path}: not an idx file; it begins with {content[:4]!r}")
    if content[2] != UNSIGNED_BYTES:
        raise DataError(f"{path}: expected unsigned bytes (type {UNSIGNED_BYTES}), got type {content[2]}")
    start = 4 + 4 * content[3]
    if len(content) < start:
        raise DataError(f"{path}: cut short within its header ({len(content)} of {start} bytes)")
    shape = struct.unpack(f">{content[3]}I", content[4:start])
    if len(content) - start != math.prod(shape):
        raise DataError(
            f"{path}: expected {math.prod(shape)} bytes for {' x '.join(map(str, shape))} values, "
            f"got {len(content) - start}"
        )
    return np.frombuffer(content, dtype=np.uint8, offset=start).reshape(shape)


def read_labelled_images(images: str | Path, labels: str | Path) -> Documents:
    """Read images and their labels: a part of MNIST, or of a dataset in its form.

    Returns
    -------
    Documents
        `inputs` is a float64 csr_array (images, pixels row by row) of grey values from 0 to 1; labels "0" to "9";
        a pixel is named `p<row>_<column>`.

    Raises
    ------
    DataError
        As `read_idx`; files of other dimensions; as many labels as images are expected.
    """
    from scipy.sparse import csr_array

    pixels, digits = read_idx(images), read_idx(labels)
    if pixels.ndim != 3:
        raise DataError(f"{images}: expected images x rows x columns, got {pixels.ndim} dimensions")
    if digits.ndim != 1:
        raise DataError(f"{labels}: expected one dimension of labels, got {digits.ndim}")
    if len(pixels) != len(digits):
        raise DataError(f"{images}: {len(pixels)} images, but {len(digits)} labels in {labels}")
    n_items, n_rows, n_columns = pixels.shape
    matrix = csr_array(pixels.reshape(n_items, n_rows * n_columns)).astype(np.float64)
    matrix.data /= WHITE
    names = [f"p{row}_{column}" for row in range(n_rows) for column in range(n_columns)]
    return Documents(matrix, [str(digit) for digit in digits], feature_names=names)
