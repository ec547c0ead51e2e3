"""Readers of handwritten words as tables of letter images: the publisher's `letter.data`, and its MATLAB copy.

One row a letter, tab-separated: id, letter, next_id (-1 ends the word), word_id, position, fold, then P grey
values row by row (0/1, P = 128 for the 16x8 letters). Words are the chains of next_id, in the order of their
first rows; word_id, position and fold are carried by the format and not used. A tab at the end of a row and
an empty letter (not labelled) are allowed.
"""

from pathlib import Path

import numpy as np

from crfqn.data.files.lines import read_bytes
from crfqn.errors import DataError
from crfqn.readers.labeled import Labeled

N_FIELDS = 6
LAST = -1
TAB, ZERO = ord("\t"), ord("0")


def read_letter_table(path: str | Path, n_pixels: int = 128) -> Labeled:
    """Read a letter table with n_pixels grey values, 0..255, in a row, plain or gzip-compressed.

    `inputs[i]` is a uint8 array (T, n_pixels), a view into one shared array. DataError, naming file and line, for a
    malformed row, a chain that leads nowhere, no rows at all.
    """
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
            ids[row], following[row] = int(fields[0]), int(fields[2])
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
    """Return grey values (rows, n_pixels), uint8; rows of one-digit values are read all at once."""
    width = 2 * n_pixels - 1
    pixels = np.empty((len(tails), n_pixels), dtype=np.uint8)
    is_plain = np.fromiter((len(tail) == width for tail in tails), dtype=bool, count=len(tails))
    plain = np.flatnonzero(is_plain)
    characters = np.frombuffer(b"".join(tails[row] for row in plain), dtype=np.uint8).reshape(-1, width)
    values = characters[:, ::2] - np.uint8(ZERO)  # anything below "0" wraps around to a large value
    is_table = (values <= 9).all(axis=1) & (characters[:, 1::2] == TAB).all(axis=1)
    pixels[plain[is_table]] = values[is_table]
    is_plain[plain[~is_table]] = False
    for row in np.flatnonzero(~is_plain):
        pixels[row] = _pixel_row(f"{path}, line {numbers[row]}", tails[row], n_pixels)
    return pixels


def _pixel_row(where: str, tail: bytes, n_pixels: int) -> list[int]:
    fields = tail.split(b"\t")
    if len(fields) != n_pixels:
        raise DataError(
            f"{where}: expected {N_FIELDS + n_pixels} columns ({n_pixels} of them pixels), "
            f"got {N_FIELDS + len(fields)}"
        )
    for column, field in enumerate(fields, start=N_FIELDS + 1):
        if not (field.isdigit() and int(field) <= 255):
            raise DataError(f"{where}, column {column}: expected a pixel value 0..255, got {_shown(field)}")
    return [int(field) for field in fields]


def _words(path: str | Path, ids: np.ndarray, following: np.ndarray, numbers: list[int]) -> list[np.ndarray]:
    """Return the row numbers of each word, in reading order, by following the chains of next_id."""
    row_of = {int(id_): row for row, id_ in enumerate(ids)}
    if len(row_of) != len(ids):
        repeated = next(row for row, id_ in enumerate(ids) if row_of[int(id_)] != row)
        raise DataError(f"{path}, line {numbers[repeated]}: id {ids[repeated]} comes again further down")
    next_row = np.full(len(ids), LAST, dtype=np.int64)
    is_start = np.ones(len(ids), dtype=bool)
    for row in np.flatnonzero(following != LAST):
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
        while place != LAST:
            rows.append(place)
            place = int(next_row[place])
        words.append(np.array(rows, dtype=np.int64))
    if sum(len(word) for word in words) != len(ids):
        raise DataError(f"{path}: some chains of next_id run in a circle; each must end with {LAST}")
    return words


def read_letter_matlab(path: str | Path, shape: tuple[int, int] = (16, 8)) -> Labeled:
    """Read the MATLAB copy `ocr_taskar.mat`: training words, then test words, in file order.

    The file keeps an image column by column with a constant 1 behind it, and letters as 0..25.
    """
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
    except Exception as error:  # loadmat raises whatever its parser stumbles over
        raise DataError(f"{path}: not the expected MATLAB file of letters: {error!r}") from error
    return Labeled(inputs, labels)
