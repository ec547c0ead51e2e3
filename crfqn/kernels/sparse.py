"""Loops over sparse matrices: sweeps over columns, scores of single rows; and searches of sorted index sets.

For `objectives.linear`: gradients of coordinates, scores of a direction, full gradient scans. The column of a
coordinate (state k, feature f) lists the positions t with x_tf != 0. Sweeps over active sets use label-major arrays
(K, N): the row of a state stays in the L2 cache during the sweep over its columns. Screening computes all states of a
feature together, from a position-major copy (N, width), in tiles of positions that fit into the cache.

Speed: latency and address arithmetic limit these loops, not bandwidth. Sums are split by hand into four: a gather, into
which the compiler would vectorise them, is several times slower than four loads. Casts to unsigned integers avoid the
test for negative indices.

Shapes: F features, N positions, K states, n coordinates.

    indptr            int64 (F + 1,)
    indices           int32 or int64 (nnz,), ascending in each column
    values            float64 (nnz,), or (0,) if all stored values are 1
    states, features  int (n,), of the coordinates
"""

import numpy as np

from crfqn.kernels import IN_ORDER, inner, kernel, subkernel
from crfqn.kernels.rows import add_picked, new_rows

TILE_POSITIONS = 64  # rows of a tile, fixed by the L1 cache


@inner
def first_at(begin, end, indices, position):
    """Return the place of the first of the sorted indices[begin ... end - 1] with index >= position, or `end`."""
    low, high = begin, end
    while low < high:
        middle = (low + high) // 2
        if indices[middle] < position:
            low = middle + 1
        else:
            high = middle
    return low


@subkernel(sums=IN_ORDER, counts=False)
def binary_dot(positions, row):
    """Return sum_t row[t] over the listed positions."""
    n = positions.size // 4
    s0 = s1 = s2 = s3 = 0.0
    for e in range(n):
        s0 += row[np.uint64(positions[4 * e])]
        s1 += row[np.uint64(positions[4 * e + 1])]
        s2 += row[np.uint64(positions[4 * e + 2])]
        s3 += row[np.uint64(positions[4 * e + 3])]
    for e in range(4 * n, positions.size):
        s0 += row[np.uint64(positions[e])]
    return (s0 + s1) + (s2 + s3)


@subkernel(sums=IN_ORDER, counts=False)
def valued_dot(positions, values, row):
    """Return sum_t x_t row[t] over the listed positions."""
    n = positions.size // 4
    s0 = s1 = s2 = s3 = 0.0
    for e in range(n):
        s0 += values[4 * e] * row[np.uint64(positions[4 * e])]
        s1 += values[4 * e + 1] * row[np.uint64(positions[4 * e + 1])]
        s2 += values[4 * e + 2] * row[np.uint64(positions[4 * e + 2])]
        s3 += values[4 * e + 3] * row[np.uint64(positions[4 * e + 3])]
    for e in range(4 * n, positions.size):
        s0 += values[e] * row[np.uint64(positions[e])]
    return (s0 + s1) + (s2 + s3)


@kernel(sums=IN_ORDER, counts=False)
def coordinate_gradients(first, last, states, features, indptr, indices, values, residual, out):
    """out[c] = sum_t x_{t,f_c} residual[k_c, t], the gradient of the coordinates c = first ... last - 1."""
    for c in range(first, last):
        begin, end = indptr[features[c]], indptr[features[c] + 1]
        row = residual[states[c]]
        if values.size == 0:
            out[c] = binary_dot(indices[begin:end], row)
        else:
            out[c] = valued_dot(indices[begin:end], values[begin:end], row)


@kernel(sums=IN_ORDER, counts=False)
def square_sums(
    first, last, states, features, indptr, indices, values, residual, inverse_weights, curvature, majorant
):
    """Compute two measures of curvature of the coordinates c = first ... last - 1, with x = x_{t,f_c}, p = p_t(k_c).

    majorant[c] = sum_t x^2 |r_t|,   r = weight (p - observed)
    curvature[c] = sum_t weight x^2 p (1 - p) = sum_t x^2 |r_t| (1 - |r_t| / weight), observed or not
    """
    for c in range(first, last):
        row, rough, curved = residual[states[c]], 0.0, 0.0
        for e in range(indptr[features[c]], indptr[features[c] + 1]):
            t = np.uint64(indices[e])
            size = abs(row[t])
            square = size * values[e] * values[e] if values.size > 0 else size
            rough += square
            curved += square * (1.0 - size * inverse_weights[t])
        majorant[c], curvature[c] = rough, curved


@kernel(sums=IN_ORDER, counts=False)
def add_columns(first, last, states, features, weights, indptr, indices, values, scores):
    """scores[k_c, t] += weights[c] x_{t,f_c} for c = first ... last - 1: the scores of a sparse direction."""
    for c in range(first, last):
        begin, end = indptr[features[c]], indptr[features[c] + 1]
        row, weight = scores[states[c]], weights[c]
        if values.size == 0:
            for t in indices[begin:end]:
                row[np.uint64(t)] += weight
        else:
            for e in range(begin, end):
                row[np.uint64(indices[e])] += weight * values[e]


@kernel(sums=IN_ORDER, counts=False)
def column_sums(first, last, power, indptr, indices, values, factors, out):
    """out[f] = sum_t |x_tf|^power factors[t] for f = first ... last - 1, power 1 or 2; factors : float64 (N,).

    With factors[t] = max_k |residual[k, t]| and power 1, it is an upper bound of the gradients of all states.
    """
    for f in range(first, last):
        total = 0.0
        for e in range(indptr[f], indptr[f + 1]):
            factor = factors[np.uint64(indices[e])]
            size = abs(values[e]) if values.size > 0 else 1.0
            total += factor * size if power == 1 else factor * size * size
        out[f] = total


@kernel(counts=False)
def transpose_positions(first, last, rows, order, out, norms):
    """out[t] = rows[:, t], and norms[t] its norm of the given order (1, 2 or inf), for t = first ... last - 1; rows :
    float64 (K, N), out : float64 (N, K or more)."""
    for start in range(first, last, TILE_POSITIONS):
        stop = start + TILE_POSITIONS if start + TILE_POSITIONS < last else last
        for t in range(start, stop):
            norms[t] = 0.0
        for k in range(rows.shape[0]):
            for t in range(start, stop):
                size = abs(rows[k, t])
                out[t, k] = rows[k, t]
                if order == np.inf:
                    norms[t] = size if size > norms[t] else norms[t]
                else:
                    norms[t] += size if order == 1 else size * size
        for t in range(start, stop if order == 2 else start):
            norms[t] = np.sqrt(norms[t])


@kernel(counts=False)
def transpose(source, target):
    """target[j, i] = source[i, j], by tiles that stay in the L1 cache; rows of `target` may be longer."""
    n, m = source.shape
    for i_first in range(0, n, TILE_POSITIONS):
        i_last = min(i_first + TILE_POSITIONS, n)
        for j_first in range(0, m, TILE_POSITIONS):
            for j in range(j_first, min(j_first + TILE_POSITIONS, m)):
                for i in range(i_first, i_last):
                    target[j, i] = source[i, j]


@kernel(counts=False)
def feature_gradients(features, cursor, block, tile, indptr, indices, values, residual, out):
    """out[i, k] = sum_t x_tf residual[t, k] for the features f = features[i] and all states; out is zero on entry.

    cursor : int64, indptr[features], overwritten
    residual : float64 (N, width), position-major
    block, tile : number of features and of positions at a time, so that both fit into the caches
    """
    n_positions = residual.shape[0]
    for start in range(0, features.size, block):
        last = start + block if start + block < features.size else features.size
        for stop in range(tile, n_positions + tile, tile):
            for i in range(start, last):
                begin, column_end = cursor[i], indptr[features[i] + 1]
                end = begin
                while end < column_end and indices[end] < stop:
                    end += 1
                add_picked(out[i], residual, indices, begin, end, values)
                cursor[i] = end


@kernel
def add_powers(gradients, n_states, inside, order, totals):
    """totals[i] += sum_k max(|gradients[i, k]| - inside, 0)^order over k < n_states, order 1 or 2."""
    for i in range(totals.size):
        total = 0.0
        for k in range(n_states):
            excess = max(abs(gradients[i, k]) - inside, 0.0)
            total += excess if order == 1 else excess * excess
        totals[i] += total


@kernel
def add_position_rows(first, last, table, indptr, indices, values, scores):
    """scores[k, t] += sum_f x_tf table[f, k] for the positions t = first ... last - 1, by their rows (CSR).

    The sums of a position stay in registers for its whole row; by columns each entry would load and store them.

    table : float64 (F, width), scores : float64 (K, N), K <= width
    """
    sums = new_rows(TILE_POSITIONS, table.shape[1])
    for start in range(first, last, TILE_POSITIONS):
        stop = min(start + TILE_POSITIONS, last)
        sums[: stop - start] = 0.0
        for t in range(start, stop):
            add_picked(sums[t - start], table, indices, indptr[t], indptr[t + 1], values)
        for k in range(scores.shape[0]):
            for t in range(start, stop):
                scores[k, t] += sums[t - start, k]


@kernel
def add_feature_rows(first, features, table, indptr, indices, values, image):
    """image[t - first] += sum_i x_tf table[i], f = features[i], for the positions t = first, first + 1, ... of `image`,
    float64 (positions, width); table : float64 (features, width)."""
    last = first + image.shape[0]
    for i in range(features.size):
        weights, end = table[i], indptr[features[i] + 1]
        for e in range(first_at(indptr[features[i]], end, indices, first), end):
            t = np.int64(indices[e])
            if t >= last:
                break
            x, row = values[e] if values.size > 0 else 1.0, image[t - first]
            for r in range(row.size):
                row[r] += x * weights[r]


# ---- scores of positions from their entries, for prediction: each entry adds the weights of its feature. Sweeps over
# columns would read all features with weights, thousands of times as many as one sentence has.


ENTRY_BITS = 32  # the lower bits of a key are the place of an entry in its row, the upper ones its column


@inner(sums=IN_ORDER)
def sort_keys(keys, n):
    """Sort the first n integers in place by Shell's sort, which is insertion sort for n < 18."""
    gap = 1
    while gap < n // 9:
        gap = 3 * gap + 1
    while gap > 0:
        for i in range(gap, n):
            key, place = keys[i], i
            while place >= gap and keys[place - gap] > key:
                keys[place] = keys[place - gap]
                place -= gap
            keys[place] = key
        gap //= 3


@inner(sums=IN_ORDER)
def row_keys(begin, end, columns, keys):
    """Write a key of each entry, its column and its place in the row, in ascending order; return the number of keys."""
    n, before, is_sorted = np.int64(0), np.int64(-1), True
    for e in range(begin, end):
        if columns[e] >= 0:
            key = (np.int64(columns[e]) << ENTRY_BITS) + (e - begin)
            is_sorted &= before < key
            keys[n] = before = key
            n += 1
    if not is_sorted:
        sort_keys(keys, n)
    return n


@kernel(sums=IN_ORDER)
def score_entries(first, last, row_ends, columns, values, heads, states, places, weights, initial, scores):
    """scores[k, t] = initial[k] + sum_f x_tf w_kf for t = first ... last - 1, x_tf the sum of the entries (t, f).

    Return False if an x_tf is not finite, or if `row_ends` does not ascend within the entries. The terms are added in
    the order of the features: the scores have the bits of `add_columns`.

    row_ends : int64 (N + 1,), the entries of position t are row_ends[t] ... row_ends[t + 1] - 1, in any order
    columns : int32 (entries,), below F; negative for entries without a feature
    values : float64 (entries,), or (0,) if all are 1
    heads : int64 (F + 1,), the weights of feature f are those numbered heads[f] ... heads[f + 1] - 1
    states, places : int32 (weights,), and int64 (weights,) or (0,): weight j belongs to states[j] and is
        weights[places[j]], or weights[j] if there are no places
    """
    longest, is_sound, low = 0, True, (np.int64(1) << ENTRY_BITS) - 1
    for t in range(first, last):
        is_sound &= 0 <= row_ends[t] <= row_ends[t + 1] <= columns.size
        longest = max(longest, row_ends[t + 1] - row_ends[t])
    if not is_sound:
        return False
    keys, row = np.empty(longest, np.int64), np.empty(initial.size)
    for t in range(first, last):
        begin = row_ends[t]
        for k in range(row.size):  # a slice would add 1.5 s of compilation, for numba's error messages
            row[k] = initial[k]
        n, e = row_keys(begin, row_ends[t + 1], columns, keys), 0
        while e < n:
            f, x = keys[e] >> ENTRY_BITS, 0.0
            while e < n and keys[e] >> ENTRY_BITS == f:
                x += values[begin + (keys[e] & low)] if values.size > 0 else 1.0
                e += 1
            is_sound &= np.isfinite(x)
            for j in range(heads[f], heads[f + 1]):
                row[states[j]] += x * (weights[places[j]] if places.size > 0 else weights[j])
        for k in range(row.size):
            scores[k, t] = row[k]
    return is_sound


def is_range(numbers: np.ndarray) -> bool:
    """Return whether sorted, distinct integers have no gaps, so that places in them need no search."""
    return numbers.size > 0 and bool(numbers[-1] - numbers[0] == numbers.size - 1)


def places(numbers: np.ndarray, some: np.ndarray) -> np.ndarray | slice:
    """Return the places of `some` in `numbers`, both sorted and distinct, as indices or as a slice."""
    if not is_range(numbers):
        return found_in(numbers, some)[0]
    if not is_range(some):
        return some - numbers[0]
    first = int(some[0] - numbers[0])
    return slice(first, first + some.size)


def sorted_union(*arrays: np.ndarray) -> np.ndarray:
    """Return the union of sorted arrays of distinct numbers. It is one of the arrays itself, not a copy, if that has no
    gaps and all others lie between its ends or are empty."""
    longest, *others = sorted(arrays, key=len, reverse=True)
    others = [numbers for numbers in others if numbers.size]
    holds_all = is_range(longest) and all(
        longest[0] <= some[0] and some[-1] <= longest[-1] for some in others
    )
    if holds_all or not others:
        return longest
    for some in others:
        merged = np.empty(longest.size + some.size, np.int64)
        longest = merged[: merge(longest, some, merged)]
    return longest


@kernel(counts=False)
def merge(first, second, merged):
    """merged[:n] = the union of two sorted arrays of distinct numbers; return n."""
    i = j = n = 0
    while i < first.size or j < second.size:
        takes_first = j == second.size or (i < first.size and first[i] <= second[j])
        takes_second = i == first.size or (j < second.size and second[j] <= first[i])
        merged[n] = first[i] if takes_first else second[j]
        i, j, n = i + takes_first, j + takes_second, n + 1
    return n


def union(*arrays: np.ndarray) -> np.ndarray:
    """Return the distinct numbers of all arrays, sorted."""
    numbers = np.concatenate(arrays)
    numbers.sort(kind="stable")
    is_first = np.ones(numbers.size, bool)
    np.not_equal(numbers[1:], numbers[:-1], out=is_first[1:])
    return numbers[is_first]


def found_in(numbers: np.ndarray, queries: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the place of each query in the sorted `numbers`, as `find_places` does, and whether it is there."""
    place, is_there = np.zeros(queries.size, np.int64), np.zeros(queries.size, bool)
    if numbers.size:
        find_places(numbers, queries, place, is_there)
    return place, is_there


def entries_at(queries: np.ndarray, numbers: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Return the entries of a sparse vector, sorted `numbers` and their float64 `values`, at the queries; 0 for absent
    ones."""
    out = np.zeros(queries.size)
    place, is_there = found_in(numbers, queries)
    out[is_there] = values[place[is_there]]
    return out


@kernel(counts=False)
def find_places(numbers, queries, place, is_there):
    """place[j] = the place of the first of the sorted `numbers` that is >= queries[j], or the last place.

    A galloping search from the place before takes O(1) comparisons a query if queries are sorted and dense.
    """
    low, n = 0, numbers.size
    for j in range(queries.size):
        x, stride = queries[j], 1
        if low > 0 and numbers[low - 1] >= x:
            low, high = 0, low - 1
        else:
            high = low
            while high < n and numbers[high] < x:
                low, high, stride = high + 1, high + stride, 2 * stride
            high = high if high < n else n
        low = first_at(low, high, numbers, x)
        place[j] = low if low < n else n - 1
        is_there[j] = low < n and numbers[low] == x
