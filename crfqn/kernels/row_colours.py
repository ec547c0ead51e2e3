"""Classes of rows that have no position in common: their updates do not see each other, and may be done at once.

Most rows of a text have a few entries, and take less time than a meeting of threads. Rows of one colour need none.
"""

import numpy as np

from crfqn.kernels import bare_kernel

N_BITS = 64


@bare_kernel
def colour_rows(features, indptr, indices, most, taken, colours):
    """colours[k] = a class of the row of features[k], no two of a class with a position in common; -1 for large rows.

    Greedy, from the first to the last: the first colour that none of the row's positions has yet. Where a row
    finds all of a word's bits taken, as many new ones begin. Rows with more than `most` entries get none.

    features, colours : int64 (steps,); taken : uint64 (N,), zeros before, the colours that each position has
    """
    past, everything = 0, np.uint64(0xFFFFFFFFFFFFFFFF)
    for k in range(features.size):
        begin, end = indptr[features[k]], indptr[features[k] + 1]
        if end - begin > most:
            colours[k] = -1
            continue
        used = np.uint64(0)
        for e in range(begin, end):
            used |= taken[np.uint64(indices[e])]
        if used == everything:
            past, used = past + N_BITS, np.uint64(0)
            taken[:] = used
        colour, bit = 0, np.uint64(1)
        while used & bit:
            colour, bit = colour + 1, bit << np.uint64(1)
        for e in range(begin, end):
            taken[np.uint64(indices[e])] |= bit
        colours[k] = past + colour
