"""CRFsuite's binary model files (`lCRF`, version 100): weights of a chain from bytes, and the bytes for weights.

A header of 48 bytes, then the chunks, each with its own header: `FEAT`, the weights of 20 bytes (kind, from, to,
weight), those of attributes before those of transitions; two tables of strings, labels and attributes; `LFRF` and
`AFRF`, which list the weights of each label (two more entries are empty) and of each attribute. Integers are of 4
bytes, little-endian, positions count from the start of the file. Bytes of names that are no UTF-8 are kept. Source:
Okazaki: CRFsuite: a fast implementation of conditional random fields (CRFs), 2007.
"""

from __future__ import annotations

import struct

import numpy as np
from numpy.typing import NDArray

from crfqn.data.model_file import ModelSource, at_hand, read_whole, shown_source
from crfqn.errors import InputError, ModelFileError
from crfqn.model.chain_weights import ChainWeights, SparseTable
from crfqn.model.crfsuite_strings import Damage, decode_strings, encode_strings, words_at

MAGIC, TYPE, VERSION = b"lCRF", b"FOMC", 100
# Magic, size, type, version; numbers of weights (CRFsuite leaves 0), labels, attributes; positions of the five chunks.
HEADER = struct.Struct("<4sI4sIIIIIIIII")
CHUNK = struct.Struct("<4sII")  # name, size, entries
FEATURE = np.dtype([("kind", "<u4"), ("source", "<u4"), ("target", "<u4"), ("weight", "<f8")])
STATE, TRANSITION = 0, 1
NO_LABELS = 2  # entries of LFRF behind those of the labels: begin and end, which have no weights
LARGEST_FILE = 2**32 - 10_000  # bytes


def read_weights(source: ModelSource) -> ChainWeights:
    """Return the weights of a CRFsuite model; ModelFileError for anything but a whole and sound one."""
    source = at_hand(source)
    try:
        return decode(read_whole(source))
    except Damage as damage:
        raise ModelFileError(
            f"{shown_source(source)}: not a CRFsuite model, or a damaged one: {damage}"
        ) from None


def encode(weights: ChainWeights) -> bytes:
    """Return the file of the weights, byte for byte as CRFsuite writes it for labels and attributes in this order.
    InputError for no labels, a name that is empty or has a zero byte or no UTF-8, or more than 4 GB."""
    if not weights.labels:
        raise InputError("crfsuite: expected at least one label")
    labels, attributes = (_as_bytes(names) for names in (weights.labels, weights.attributes))
    state, transition = weights.state, weights.transition
    features = np.concatenate([_records(STATE, state), _records(TRANSITION, transition)])
    number = np.arange(features.size)
    names = [*labels, *attributes]
    size = 24 * features.size + 40 * len(names) + sum(map(len, names))  # and some 4,000 bytes for all of it
    if size > LARGEST_FILE:
        raise InputError(f"crfsuite: the format holds up to 4 GB, the model would take about {size:,} bytes")
    body = bytearray(HEADER.size)
    starts = [len(body)]
    body += CHUNK.pack(b"FEAT", CHUNK.size + features.nbytes, features.size) + features.tobytes()
    for strings in (labels, attributes):
        starts.append(len(body))
        body += encode_strings(strings)
    for name, rows, numbers, n_rows, n_empty in (
        (b"LFRF", transition.rows, number[state.rows.size :], len(labels), NO_LABELS),
        (b"AFRF", state.rows, number[: state.rows.size], len(attributes), 0),
    ):
        body += bytes(-len(body) % 4)
        starts.append(len(body))
        body += _references(name, rows, numbers, n_rows, n_empty, len(body))
    HEADER.pack_into(body, 0, MAGIC, len(body), TYPE, VERSION, 0, len(labels), len(attributes), *starts)
    return bytes(body)


def _as_bytes(names: list[str]) -> list[bytes]:
    encoded = []
    for name in names:
        try:
            encoded.append(name.encode("utf-8", "surrogateescape"))
        except UnicodeEncodeError:  # half of a surrogate pair
            encoded.append(b"")
        if not encoded[-1] or "\0" in name:
            raise InputError(
                "crfsuite: expected names that UTF-8 can encode, without a zero byte, and none empty, got "
                f"{name!r:.60}"
            )
    return encoded


def _records(kind: int, table: SparseTable) -> NDArray:
    found = np.empty(table.rows.size, FEATURE)
    found["kind"], found["source"], found["target"], found["weight"] = kind, *table
    return found


def _references(
    name: bytes, rows: NDArray[np.int64], numbers: NDArray[np.int64], n_rows: int, n_empty: int, start: int
) -> bytes:
    """Return a chunk that lists, row by row, how many of the weights belong to it, and their numbers; rows ascend."""
    counts = np.bincount(rows, minlength=n_rows)
    words = np.zeros(n_rows + rows.size, "<u4")
    heads = np.cumsum(counts + 1) - counts - 1
    words[heads] = counts
    is_number = np.ones(words.size, bool)
    is_number[heads] = False
    words[is_number] = numbers
    first = start + CHUNK.size + 4 * (n_rows + n_empty)
    positions = np.concatenate([first + 4 * heads, np.zeros(n_empty, np.int64)]).astype("<u4")
    size = CHUNK.size + positions.nbytes + words.nbytes
    return CHUNK.pack(name, size, n_rows + n_empty) + positions.tobytes() + words.tobytes()


def decode(content: bytes) -> ChainWeights:
    """Return the weights that a CRFsuite model's lists of references name, as CRFsuite's tagger does. Damage for
    anything but a whole and sound file; nothing larger than some times the file is made."""
    data = memoryview(content)
    n_labels, n_attributes, starts = _read_header(data)
    features_at, labels_at, attributes_at, label_references_at, attribute_references_at = starts
    features = _read_features(data, features_at)
    labels = _as_text(decode_strings(data[labels_at:], n_labels))
    attributes = _as_text(decode_strings(data[attributes_at:], n_attributes))
    state = _read_table(data, b"AFRF", attribute_references_at, features, (STATE, n_attributes, n_labels))
    transition = _read_table(data, b"LFRF", label_references_at, features, (TRANSITION, n_labels, n_labels))
    return ChainWeights(labels, attributes, state, transition)


def _read_header(data: memoryview) -> tuple[int, int, list[int]]:
    """Return the numbers of labels and attributes, and where the chunks are."""
    if bytes(data[:4]) != MAGIC:
        raise Damage(f"it begins with {bytes(data[:4])!r} instead of {MAGIC!r}")
    if len(data) < HEADER.size:
        raise Damage(f"a file of {len(data)} bytes is too short")
    _, size, kind, version, _, n_labels, n_attributes, *starts = HEADER.unpack(data[: HEADER.size])
    if size != len(data):
        raise Damage(f"it has {len(data)} bytes instead of {size}")
    if (kind, version) != (TYPE, VERSION):
        raise Damage(f"a model of type {kind!r}, version {version}, instead of {TYPE!r}, {VERSION}")
    if not n_labels:
        raise Damage("it has no labels")
    if min(starts) < HEADER.size or max(starts) > size:
        raise Damage("a part lies outside of the file")
    return n_labels, n_attributes, starts


def _read_chunk(data: memoryview, name: bytes, start: int) -> tuple[memoryview, int]:
    """Return a chunk with its header, and the number of its entries."""
    if start + CHUNK.size > len(data):
        raise Damage(f"the part {name.decode()} is cut short")
    found, size, n_entries = CHUNK.unpack(data[start : start + CHUNK.size])
    if found != name:
        raise Damage(f"the part {name.decode()} begins with {found!r}")
    if not CHUNK.size <= size <= len(data) - start:
        raise Damage(f"the part {name.decode()} has {size} bytes, of which {len(data) - start} are there")
    return data[start : start + size], n_entries


def _read_features(data: memoryview, start: int) -> NDArray:
    chunk, n_features = _read_chunk(data, b"FEAT", start)
    if len(chunk) != CHUNK.size + n_features * FEATURE.itemsize:
        raise Damage(f"{n_features} weights do not fit into {len(chunk)} bytes")
    return np.frombuffer(chunk, FEATURE, n_features, CHUNK.size)


def _read_table(
    data: memoryview, name: bytes, start: int, features: NDArray, expected: tuple[int, int, int]
) -> SparseTable:
    """Return the weights that a chunk of references names; `expected` is their kind, and the table's shape."""
    kind, n_rows, n_columns = expected
    chunk, n_entries = _read_chunk(data, name, start)
    if n_entries < n_rows or CHUNK.size + 4 * n_rows > len(chunk):
        raise Damage(f"the part {name.decode()} has {n_entries} entries, {n_rows} are needed")
    positions = np.frombuffer(chunk, "<u4", n_rows, CHUNK.size).astype(np.int64)
    if (positions < start + CHUNK.size).any() or (positions + 4 > start + len(chunk)).any():
        raise Damage(f"an entry of {name.decode()} lies outside of it")
    counts = words_at(data, positions)
    ends = positions + 4 + 4 * counts
    # Lists do not overlap: those that did would be larger than the file together.
    if (ends > start + len(chunk)).any() or 4 * counts.sum() > len(chunk):
        raise Damage(f"the lists of {name.decode()} do not fit into it")
    rows = np.repeat(np.arange(n_rows), counts)
    within = np.arange(rows.size) - np.repeat(np.cumsum(counts) - counts, counts)
    numbers = words_at(data, np.repeat(positions + 4, counts) + 4 * within)
    if (numbers >= features.size).any():
        raise Damage(f"a list of {name.decode()} names a weight that is not there")
    found = features[numbers]
    if (
        (found["kind"] != kind).any()
        or (found["source"] != rows).any()
        or (found["target"] >= n_columns).any()
    ):
        raise Damage(f"a list of {name.decode()} names a weight of something else")
    return SparseTable(rows, found["target"].astype(np.int64), found["weight"].astype(np.float64))


def _as_text(strings: list[bytes]) -> list[str]:
    return [string.decode("utf-8", "surrogateescape") for string in strings]
