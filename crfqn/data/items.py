"""Items of consecutive positions, told apart by where each begins: what lists of them have in common."""

import numpy as np
from numpy.typing import NDArray


class Items:
    """Base of lists of items that are stored by position.

    Attributes
    ----------
    offsets : ndarray of int64, shape (I + 1,)
        Item i is made of the positions offsets[i] ... offsets[i + 1].
    """

    offsets: NDArray[np.int64]

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Number of positions of each item, shape (I,)."""
        return np.diff(self.offsets)

    @property
    def shape(self) -> tuple[int]:
        """Number of items as (I,): scikit-learn counts and indexes samples by it."""
        return (len(self),)

    def __len__(self) -> int:
        return self.offsets.size - 1
