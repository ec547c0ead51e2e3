"""CRFsuite's binary model files (`lCRF`, version 100): weights of a chain from bytes, and the bytes for weights.

A file has a header of 48 bytes, then chunks, each with its own header: `FEAT`, the weights of 20 bytes (kind, from, to,
weight), those of attributes before those of transitions; two tables of strings, labels and attributes; `LFRF` and
`AFRF`, which list the weights of each label (two more entries are empty) and of each attribute. Integers have 4
bytes, little-endian; positions count from the start of the file. Bytes of names that are not UTF-8 are kept. Source:
Okazaki: CRFsuite: a fast implementation of conditional random fields (CRFs), 2007.
"""

from __future__ import annotations

import struct

import numpy as np
from numpy.typing import NDArray

from crfqn.data.model_file import ModelFile, ModelSource, at_hand, read_whole, shown_source
from crfqn.errors import InputError, ModelFileError
from crfqn.model.content import CRFSUITE_NAMING, IMPORTED_FROM, Entries, chain_file
from crfqn.model.crfsuite_strings import Damage, decode_strings, encode_strings, words_at

FORMAT_NAME = "crfsuite"
FILE_START, MODEL_TYPE, FORMAT_VERSION = b"lCRF", b"FOMC", 100
# Magic, size, type, version; numbers of weights (0 in CRFsuite's files), labels, attributes; positions of five chunks.
FILE_HEADER = struct.Struct("<4sI4sIIIIIIIII")
CHUNK_HEADER = struct.Struct("<4sII")  # name, size in bytes, number of entries
WEIGHT_RECORD = np.dtype([("kind", "<u4"), ("source", "<u4"), ("target", "<u4"), ("weight", "<f8")])
STATE_KIND, TRANSITION_KIND = 0, 1  # `kind` of a weight
N_BOUNDARIES = 2  # entries of LFRF after those of the labels: begin and end, which have no weights
MAX_FILE_SIZE = 2**32 - 10_000  # bytes: positions have 4 bytes, headers and padding about 4,000


def read_crfsuite(source: ModelSource) -> ModelFile:
    """Return a CRFsuite model as the content of a model file; ModelFileError if it is none, or damaged."""
    source = at_hand(source)
    shown = shown_source(source)
    try:
        labels, attributes, state, transition = decode_model(read_whole(source))
    except Damage as damage:
        raise ModelFileError(f"{shown}: not a CRFsuite model, or a damaged one: {damage}") from None
    extra = {IMPORTED_FROM: FORMAT_NAME}
    return chain_file(shown, labels, attributes, state, transition, extra=extra, naming=CRFSUITE_NAMING)


def encode_model(labels: list[str], attributes: list[str], state: Entries, transition: Entries) -> bytes:
    """Return the bytes that CRFsuite writes for these weights (attributes x labels, labels x labels; sorted by row) and
    for labels and attributes in this order.

    InputError for an empty name, one with a zero byte or one that UTF-8 cannot encode, and for more than 4 GB.
    """
    label_bytes, attribute_bytes = _as_bytes(labels), _as_bytes(attributes)
    n_state = state.values.size
    weights = np.empty(n_state + transition.values.size, WEIGHT_RECORD)
    for kind, records, table in (
        (STATE_KIND, weights[:n_state], state),
        (TRANSITION_KIND, weights[n_state:], transition),
    ):
        records["kind"] = kind
        records["weight"], records["source"], records["target"] = table
    names = [*label_bytes, *attribute_bytes]
    size = 24 * weights.size + 40 * len(names) + sum(map(len, names))  # without about 4,000 bytes of headers
    if size > MAX_FILE_SIZE:
        raise InputError(f"crfsuite: the format holds up to 4 GB, the model would take about {size:,} bytes")
    body = bytearray(FILE_HEADER.size)
    starts = [len(body)]
    body += CHUNK_HEADER.pack(b"FEAT", CHUNK_HEADER.size + weights.nbytes, weights.size) + weights.tobytes()
    for strings in (label_bytes, attribute_bytes):
        starts.append(len(body))
        body += encode_strings(strings)
    numbers = np.arange(weights.size)
    for name, rows, of_rows, n_rows, n_empty in (
        (b"LFRF", transition.rows, numbers[n_state:], len(labels), N_BOUNDARIES),
        (b"AFRF", state.rows, numbers[:n_state], len(attributes), 0),
    ):
        body += bytes(-len(body) % 4)
        starts.append(len(body))
        body += _references(name, rows, of_rows, n_rows, n_empty, len(body))
    FILE_HEADER.pack_into(
        body, 0, FILE_START, len(body), MODEL_TYPE, FORMAT_VERSION, 0, len(labels), len(attributes), *starts
    )
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


def _references(
    name: bytes, rows: NDArray[np.int64], numbers: NDArray[np.int64], n_rows: int, n_empty: int, start: int
) -> bytes:
    """Return a chunk that lists for each row how many weights it has, and their numbers; `rows` ascend."""
    counts = np.bincount(rows, minlength=n_rows)
    words = np.zeros(n_rows + rows.size, "<u4")
    heads = np.cumsum(counts + 1) - counts - 1
    words[heads] = counts
    is_number = np.ones(words.size, bool)
    is_number[heads] = False
    words[is_number] = numbers
    first = start + CHUNK_HEADER.size + 4 * (n_rows + n_empty)
    positions = np.concatenate([first + 4 * heads, np.zeros(n_empty, np.int64)]).astype("<u4")
    size = CHUNK_HEADER.size + positions.nbytes + words.nbytes
    return CHUNK_HEADER.pack(name, size, n_rows + n_empty) + positions.tobytes() + words.tobytes()


def decode_model(content: bytes) -> tuple[list[str], list[str], Entries, Entries]:
    """Return labels, attributes, and the weights (attributes x labels, labels x labels) that the lists of references
    name, as CRFsuite's tagger reads them. Damage unless the file is whole and sound. Memory is O(size of
    the file)."""
    data = memoryview(content)
    if bytes(data[:4]) != FILE_START:
        raise Damage(f"it begins with {bytes(data[:4])!r} instead of {FILE_START!r}")
    if len(data) < FILE_HEADER.size:
        raise Damage(f"a file of {len(data)} bytes is too short")
    _, size, kind, version, _, n_labels, n_attributes, *starts = FILE_HEADER.unpack(data[: FILE_HEADER.size])
    if size != len(data):
        raise Damage(f"it has {len(data)} bytes instead of {size}")
    if (kind, version) != (MODEL_TYPE, FORMAT_VERSION):
        raise Damage(
            f"a model of type {kind!r}, version {version}, instead of {MODEL_TYPE!r}, {FORMAT_VERSION}"
        )
    if not n_labels:
        raise Damage("it has no labels")
    if min(starts) < FILE_HEADER.size or max(starts) > size:
        raise Damage("a part lies outside of the file")
    weights_at, labels_at, attributes_at, label_references_at, attribute_references_at = starts
    chunk, n_weights = _read_chunk(data, b"FEAT", weights_at)
    if len(chunk) != CHUNK_HEADER.size + n_weights * WEIGHT_RECORD.itemsize:
        raise Damage(f"{n_weights} weights do not fit into {len(chunk)} bytes")
    weights = np.frombuffer(chunk, WEIGHT_RECORD, n_weights, CHUNK_HEADER.size)
    labels, attributes = (
        [string.decode("utf-8", "surrogateescape") for string in decode_strings(data[start:], n_strings)]
        for start, n_strings in ((labels_at, n_labels), (attributes_at, n_attributes))
    )
    state = _read_table(data, b"AFRF", attribute_references_at, weights, (STATE_KIND, n_attributes, n_labels))
    transition = _read_table(
        data, b"LFRF", label_references_at, weights, (TRANSITION_KIND, n_labels, n_labels)
    )
    return labels, attributes, state, transition


def _read_chunk(data: memoryview, name: bytes, start: int) -> tuple[memoryview, int]:
    """Return a chunk with its header, and the number of its entries."""
    if start + CHUNK_HEADER.size > len(data):
        raise Damage(f"the part {name.decode()} is cut short")
    name_in_file, size, n_entries = CHUNK_HEADER.unpack(data[start : start + CHUNK_HEADER.size])
    if name_in_file != name:
        raise Damage(f"the part {name.decode()} begins with {name_in_file!r}")
    if not CHUNK_HEADER.size <= size <= len(data) - start:
        raise Damage(f"the part {name.decode()} has {size} bytes, but {len(data) - start} remain")
    return data[start : start + size], n_entries


def _read_table(
    data: memoryview, name: bytes, start: int, weights: NDArray, expected: tuple[int, int, int]
) -> Entries:
    """Return the weights that a chunk of references names; `expected`: their kind and the shape of the table."""
    kind, n_rows, n_columns = expected
    chunk, n_entries = _read_chunk(data, name, start)
    if n_entries < n_rows or CHUNK_HEADER.size + 4 * n_rows > len(chunk):
        raise Damage(f"the part {name.decode()} has {n_entries} entries, {n_rows} are needed")
    positions = np.frombuffer(chunk, "<u4", n_rows, CHUNK_HEADER.size).astype(np.int64)
    if (positions < start + CHUNK_HEADER.size).any() or (positions + 4 > start + len(chunk)).any():
        raise Damage(f"an entry of {name.decode()} lies outside of it")
    counts = words_at(data, positions)
    ends = positions + 4 + 4 * counts
    # Lists do not overlap: overlapping lists could be larger than the file.
    if (ends > start + len(chunk)).any() or 4 * counts.sum() > len(chunk):
        raise Damage(f"the lists of {name.decode()} do not fit into it")
    rows = np.repeat(np.arange(n_rows), counts)
    within = np.arange(rows.size) - np.repeat(np.cumsum(counts) - counts, counts)
    numbers = words_at(data, np.repeat(positions + 4, counts) + 4 * within)
    if (numbers >= weights.size).any():
        raise Damage(f"a list of {name.decode()} names a weight that is not there")
    records = weights[numbers]
    is_other = (records["kind"] != kind) | (records["source"] != rows) | (records["target"] >= n_columns)
    if is_other.any():
        raise Damage(f"a list of {name.decode()} names a weight of something else")
    return Entries(records["weight"].astype(np.float64), rows, records["target"].astype(np.int64))
