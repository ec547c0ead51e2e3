"""Fingerprints of data: a hash over the arrays and numbers that objects were made of."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

from crfqn.threads import Pool

DIGEST_BYTES = 16  # bytes of a hash: 128 bits, so that different data have different hashes


def fingerprint(content: object) -> str:
    """Return a hash of arrays, numbers, strings and dataclasses of these, in hexadecimal digits; threads do not count.

    Objects of other kinds, such as functions, are known by their names alone. Cost: about a second a GB.
    """
    digest = hashlib.blake2b(digest_size=DIGEST_BYTES)
    _add(digest, content)
    return digest.hexdigest()


def _add(digest: Any, content: Any) -> None:
    if isinstance(content, np.ndarray) and content.dtype.kind != "O":
        lies_by_columns = content.flags.f_contiguous and not content.flags.c_contiguous
        digest.update(f"{content.dtype.str}{content.shape}{lies_by_columns}".encode())
        rows = np.ascontiguousarray(content.T if lies_by_columns else content)
        digest.update(rows.reshape(-1).view(np.uint8))
    elif is_dataclass(content) and not isinstance(content, type):
        _add(digest, type(content).__name__)
        for field in fields(content):
            if field.init and not isinstance(value := getattr(content, field.name), Pool):
                _add(digest, (field.name, value))
    elif isinstance(content, Mapping):
        _add(digest, [*content.items()])
    elif isinstance(content, (str, bytes, int, float, np.generic, type(None))):
        digest.update(f"{content!r};".encode())
    elif hasattr(content, "indptr"):  # a compressed matrix
        _add(digest, (content.shape, content.indptr, content.indices, content.data))
    elif isinstance(content, Iterable):
        digest.update(b"(")
        for part in content:
            _add(digest, part)
        digest.update(b")")
    else:
        digest.update(f"{getattr(content, '__qualname__', type(content).__qualname__)};".encode())
