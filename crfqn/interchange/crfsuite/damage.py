"""Checked access to the bytes of a CRFsuite model file, of which nothing can be believed."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


class Damage(Exception):
    """Reason why bytes are no CRFsuite model; the caller adds the file's name."""


def words_at(data: memoryview, positions: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the unsigned 4-byte integers at the positions, aligned or not; all of them lie within the data."""
    octets = np.frombuffer(data, np.uint8)
    found = np.zeros(positions.shape, np.int64)
    for place in range(4):
        found |= octets[positions + place].astype(np.int64) << (8 * place)
    return found
