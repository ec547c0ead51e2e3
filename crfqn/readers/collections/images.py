"""Images with labels: MNIST's idx files, CIFAR-10's binary files, and digit strings made of scikit-learn's scans."""

from __future__ import annotations

import datetime
import math
import struct
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from crfqn.data.files.lines import read_bytes
from crfqn.errors import DataError
from crfqn.readers.documents import Documents
from crfqn.readers.labeled import Labeled

WHITE = 255
UNSIGNED_BYTES = 8
PIXELS = 3 * 32 * 32  # of CIFAR: red, green, blue; row by row
N_CLASSES = 10
FIRST_DAY = datetime.date(1950, 1, 1)
N_DAYS = (datetime.date(2049, 12, 31) - FIRST_DAY).days + 1
TEST_SHARE = 0.2


def read_idx(path: str | Path) -> NDArray[np.uint8]:
    """Read an idx file of unsigned bytes, of the dimensions that it states; plain or gzip-compressed.

    The header is 0, 0, the type of the numbers (8: unsigned bytes), the number of dimensions (a byte each), and the
    size of each dimension (4 bytes, big-endian). Format: LeCun, Cortes and Burges, *The MNIST database*. DataError,
    naming the file, for anything else.
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
    """Read the images and the labels of a part of MNIST, or of a dataset in its form.

    `inputs` is a float64 csr_array (images, pixels row by row) of grey values from 0 to 1; labels "0" to "9"; a pixel
    is named `p<row>_<column>`. DataError for files of other dimensions or lengths.
    """
    pixels, digits = read_idx(images), read_idx(labels)
    if pixels.ndim != 3:
        raise DataError(f"{images}: expected images x rows x columns, got {pixels.ndim} dimensions")
    if digits.ndim != 1:
        raise DataError(f"{labels}: expected one dimension of labels, got {digits.ndim}")
    if len(pixels) != len(digits):
        raise DataError(f"{images}: {len(pixels)} images, but {len(digits)} labels in {labels}")
    n_items, n_rows, n_columns = pixels.shape
    names = [f"p{row}_{column}" for row in range(n_rows) for column in range(n_columns)]
    return _documents(pixels.reshape(n_items, n_rows * n_columns), digits, np.float64, names)


def read_cifar(path: str | Path) -> Documents:
    """Read one of CIFAR-10's binary files, records of a label and an image, a byte a number (Krizhevsky 2009).

    `inputs` is a float32 csr_array (images, 3072) of values from 0 to 1; labels "0" to "9". DataError for a size that
    is no number of records, or a label above 9.
    """
    content = np.frombuffer(read_bytes(path), np.uint8)
    if content.size == 0 or content.size % (PIXELS + 1):
        raise DataError(f"{path}: expected records of {PIXELS + 1} bytes, got {content.size:,} bytes")
    records = content.reshape(-1, PIXELS + 1)
    labels = records[:, 0]
    if labels.max() >= N_CLASSES:
        raise DataError(f"{path}: expected labels 0 to {N_CLASSES - 1}, got {labels.max()}")
    return _documents(records[:, 1:], labels, np.float32)


def _documents(
    pixels: NDArray[np.uint8],
    labels: NDArray[np.uint8],
    dtype: type[np.floating],
    names: list[str] | None = None,
) -> Documents:
    """Return images, a row of pixels each, as rows of numbers from 0 to 1."""
    from scipy.sparse import csr_array

    matrix = csr_array(pixels).astype(dtype)
    matrix.data /= dtype(WHITE)
    return Documents(matrix, [str(label) for label in labels], feature_names=names)


def make_digit_strings(n_train: int = 1500, n_test: int = 300, seed: int = 0) -> Labeled:
    """Generate dates and times written in digits: the 8x8 scans that ship inside scikit-learn. No file, no network.

    A string is a valid date `YYYYMMDD` (1950 to 2049) or time `HHMMSS`, half and half, so that which digit may follow
    which carries information. Training strings come first; those for the test use other scans (20 % of each digit).

    seed : of the text, of the cut of the scans and of their draw

    `inputs[i]` is a uint8 array (8 or 6, 64), grey values 0..16 row by row; labels "0".."9".
    """
    from sklearn.datasets import load_digits

    scans, digits = load_digits(return_X_y=True)
    scans = scans.astype(np.uint8)
    random = np.random.RandomState(seed)  # its stream is frozen by NumPy: the data is the same everywhere
    shuffled = [random.permutation(np.flatnonzero(digits == digit)) for digit in range(10)]
    cuts = [round(TEST_SHARE * len(own)) for own in shuffled]
    training = [own[cut:] for own, cut in zip(shuffled, cuts, strict=True)]
    testing = [own[:cut] for own, cut in zip(shuffled, cuts, strict=True)]
    inputs: list[np.ndarray] = []
    labels: list[list[str]] = []
    for n_strings, pools in ((n_train, training), (n_test, testing)):
        for _ in range(n_strings):
            text = _date_or_time(random)
            chosen = [pools[int(digit)][random.randint(len(pools[int(digit)]))] for digit in text]
            inputs.append(scans[chosen])
            labels.append(list(text))
    return Labeled(inputs, labels, n_train=n_train)


def _date_or_time(random: np.random.RandomState) -> str:
    if random.randint(2):
        return (FIRST_DAY + datetime.timedelta(days=random.randint(N_DAYS))).strftime("%Y%m%d")
    seconds = random.randint(24 * 60 * 60)
    return f"{seconds // 3600:02d}{seconds // 60 % 60:02d}{seconds % 60:02d}"
