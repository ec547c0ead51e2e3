"""Images with labels: handwritten letters, MNIST's idx files, CIFAR-10's binary files, digit strings of scikit-learn's.

A table of letters (the publisher's `letter.data`) has a row a letter, tab-separated: id, letter, next_id (-1 ends the
word), word_id, position, fold (these three are not used), then P grey values row by row (0/1, P = 128 for 16x8). Words
are chains of next_id, in the order of first rows; a tab at a row's end and an empty letter (no label) are allowed.
"""

from __future__ import annotations

import datetime
import math
import struct
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from crfqn.data.files import read_bytes
from crfqn.errors import DataError
from crfqn.numerals import whole_number_in
from crfqn.readers.labelled_items import Documents, Labeled

WHITE_VALUE = 255  # the largest grey value, which becomes 1
UNSIGNED_BYTES = 8  # type of the numbers in an idx file
CIFAR_PIXELS = 3 * 32 * 32  # of an image: red, green, blue; row by row
N_CLASSES = 10  # of CIFAR-10
# Dates of digit strings: 100 years.
FIRST_DAY = datetime.date(1950, 1, 1)
N_DAYS = (datetime.date(2049, 12, 31) - FIRST_DAY).days + 1  # days
TEST_SHARE = 0.2  # of the scans of a digit
N_FIELDS = 6  # of a letter's row, before its pixels
END_OF_WORD = -1  # next_id of a word's last letter
TAB_BYTE, ZERO_BYTE = ord("\t"), ord("0")


def read_idx(path: str | Path) -> NDArray[np.uint8]:
    """Read an idx file of unsigned bytes, in its dimensions; DataError, naming the file, for anything else.

    The header is 0, 0, the type of the numbers (8: unsigned bytes), the number of dimensions (a byte each), and the
    size of each (4 bytes, big-endian). Format: LeCun, Cortes and Burges, *The MNIST database*.
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
    """Read a part of MNIST or of data in its form: float64 csr_array (images, pixels row by row), 0 to 1; pixels are
    named `p<row>_<column>`, labels "0" to "9". DataError for files of other dimensions or lengths."""
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
    """Read a binary file of CIFAR-10, a byte for the label and 3072 of the image (Krizhevsky 2009): float32 csr_array,
    0 to 1, and "0" to "9". DataError for a size that is no number of records, or a label above 9."""
    content = np.frombuffer(read_bytes(path), np.uint8)
    if content.size == 0 or content.size % (CIFAR_PIXELS + 1):
        raise DataError(f"{path}: expected records of {CIFAR_PIXELS + 1} bytes, got {content.size:,} bytes")
    records = content.reshape(-1, CIFAR_PIXELS + 1)
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
    matrix.data /= dtype(WHITE_VALUE)
    return Documents(matrix, [str(label) for label in labels], feature_names=names)


def make_digit_strings(n_train: int = 1500, n_test: int = 300, seed: int = 0) -> Labeled:
    """Generate dates `YYYYMMDD` (1950 to 2049) and times `HHMMSS`, half and half, whose neighbouring digits are
    dependent, from scikit-learn's 8x8 scans: uint8 (8 or 6, 64), grey values 0..16, labels "0".."9".

    Training strings are first; the test strings use other scans (20 % of each digit). No file, no network.
    """
    from sklearn.datasets import load_digits

    scans, digits = load_digits(return_X_y=True)
    scans = scans.astype(np.uint8)
    random = np.random.RandomState(seed)  # its stream is frozen by NumPy: the data is the same everywhere
    shuffled = [random.permutation(np.flatnonzero(digits == digit)) for digit in range(10)]
    cuts = [round(TEST_SHARE * len(numbers)) for numbers in shuffled]
    training = [numbers[cut:] for numbers, cut in zip(shuffled, cuts, strict=True)]
    testing = [numbers[:cut] for numbers, cut in zip(shuffled, cuts, strict=True)]
    inputs: list[np.ndarray] = []
    labels: list[list[str]] = []
    for n_strings, pools in ((n_train, training), (n_test, testing)):
        for _ in range(n_strings):
            if random.randint(2):
                text = (FIRST_DAY + datetime.timedelta(days=random.randint(N_DAYS))).strftime("%Y%m%d")
            else:
                seconds = random.randint(24 * 60 * 60)
                text = f"{seconds // 3600:02d}{seconds // 60 % 60:02d}{seconds % 60:02d}"
            chosen = [pools[int(digit)][random.randint(len(pools[int(digit)]))] for digit in text]
            inputs.append(scans[chosen])
            labels.append(list(text))
    return Labeled(inputs, labels, n_train=n_train)


def read_letter_table(path: str | Path, n_pixels: int = 128) -> Labeled:
    """Read a letter table, a word a uint8 array (T, n_pixels) of grey values 0..255, a view into one array. DataError,
    naming file and line, for a malformed row, a chain that leads nowhere, no rows at all."""
    lines = read_bytes(path).split(b"\n")
    numbers = [number for number, line in enumerate(lines, start=1) if line.strip()]
    if not numbers:
        raise DataError(f"{path}: no rows; expected one row of {N_FIELDS + n_pixels} columns a letter")
    ids, following = np.empty((2, len(numbers)), dtype=np.int64)
    letters: list[str] = []
    tails: list[bytes] = []
    for row, number in enumerate(numbers):
        fields = lines[number - 1].split(b"\t", N_FIELDS)
        try:
            ids[row], following[row] = (whole_number_in(fields[column].decode()) for column in (0, 2))
            letters.append(fields[1].decode())
            tails.append(fields[N_FIELDS].rstrip())
        except (ValueError, IndexError, OverflowError) as error:
            raise DataError(
                f"{path}, line {number}: expected id, letter, next_id, word_id, position, fold and "
                f"{n_pixels} pixels, tab-separated; got {_shown(lines[number - 1])}"
            ) from error
    pixels = _pixels(path, tails, numbers, n_pixels)
    words = _words(path, ids, following, numbers)
    order = np.concatenate(words)
    ends = np.cumsum([len(word) for word in words])[:-1]
    return Labeled(np.split(pixels[order], ends), [[letters[row] for row in word] for word in words])


def _shown(line: bytes) -> str:
    text = line.decode(errors="replace").rstrip()
    return repr(text if len(text) <= 40 else text[:37] + "...")


def _pixels(path: str | Path, tails: list[bytes], numbers: list[int], n_pixels: int) -> np.ndarray:
    """Return grey values (rows, n_pixels), uint8; rows of one-digit values are read together."""
    width = 2 * n_pixels - 1
    pixels = np.empty((len(tails), n_pixels), dtype=np.uint8)
    is_plain = np.fromiter((len(tail) == width for tail in tails), dtype=bool, count=len(tails))
    plain = np.flatnonzero(is_plain)
    characters = np.frombuffer(b"".join(tails[row] for row in plain), dtype=np.uint8).reshape(-1, width)
    values = characters[:, ::2] - np.uint8(ZERO_BYTE)  # anything below "0" wraps around to a large value
    is_table = (values <= 9).all(axis=1) & (characters[:, 1::2] == TAB_BYTE).all(axis=1)
    pixels[plain[is_table]] = values[is_table]
    is_plain[plain[~is_table]] = False
    for row in np.flatnonzero(~is_plain):
        where, fields = f"{path}, line {numbers[row]}", tails[row].split(b"\t")
        if len(fields) != n_pixels:
            raise DataError(
                f"{where}: expected {N_FIELDS + n_pixels} columns ({n_pixels} of them pixels), "
                f"got {N_FIELDS + len(fields)}"
            )
        for column, field in enumerate(fields):
            if not (field.isdigit() and int(field) <= 255):
                raise DataError(
                    f"{where}, column {N_FIELDS + 1 + column}: expected a pixel value 0..255, got {_shown(field)}"
                )
            pixels[row, column] = int(field)
    return pixels


def _words(path: str | Path, ids: np.ndarray, following: np.ndarray, numbers: list[int]) -> list[np.ndarray]:
    """Return the row numbers of each word, in reading order, by following the chains of next_id."""
    row_of = {int(id_): row for row, id_ in enumerate(ids)}
    if len(row_of) != len(ids):
        repeated = next(row for row, id_ in enumerate(ids) if row_of[int(id_)] != row)
        raise DataError(f"{path}, line {numbers[repeated]}: id {ids[repeated]} comes again further down")
    next_row = np.full(len(ids), END_OF_WORD, dtype=np.int64)
    is_start = np.ones(len(ids), dtype=bool)
    for row in np.flatnonzero(following != END_OF_WORD):
        after = row_of.get(int(following[row]))
        if after is None:
            raise DataError(
                f"{path}, line {numbers[row]}: next_id {following[row]} is the id of no row; "
                f"is the file cut short?"
            )
        if not is_start[after]:
            raise DataError(f"{path}, line {numbers[row]}: a second row leads to id {following[row]}")
        next_row[row], is_start[after] = after, False
    words: list[np.ndarray] = []
    for start in np.flatnonzero(is_start):
        rows, place = [], int(start)
        while place != END_OF_WORD:
            rows.append(place)
            place = int(next_row[place])
        words.append(np.array(rows, dtype=np.int64))
    if sum(len(word) for word in words) != len(ids):
        raise DataError(f"{path}: some chains of next_id run in a circle; each must end with {END_OF_WORD}")
    return words


def read_letter_matlab(path: str | Path, shape: tuple[int, int] = (16, 8)) -> Labeled:
    """Read the MATLAB copy `ocr_taskar.mat`: training words, then test words, in file order. The file stores an image
    column by column, followed by a constant 1, and letters as 0..25."""
    from scipy.io import loadmat

    n_rows, n_columns = shape
    inputs: list[np.ndarray] = []
    labels: list[list[str]] = []
    try:
        content = loadmat(path)
        for part in ("train", "test"):
            patterns, codes = content[f"patterns_{part}"].flat, content[f"labels_{part}"].flat
            for images, letters in zip(patterns, codes, strict=True):
                columns = images[:-1].T.reshape(-1, n_columns, n_rows)
                inputs.append(columns.transpose(0, 2, 1).reshape(-1, n_rows * n_columns).astype(np.uint8))
                labels.append([chr(ord("a") + int(code)) for code in letters.ravel()])
    except Exception as error:  # loadmat passes on any exception of its parser
        raise DataError(f"{path}: not the expected MATLAB file of letters: {error!r}") from error
    return Labeled(inputs, labels)
