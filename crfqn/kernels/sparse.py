"""Loops over sparse matrices: sweeps over columns, scores of single rows; and searches of sorted index sets.

For `objectives.linear`: gradients of coordinates, scores of a direction, full gradient scans. The column of a
coordinate (state k, feature f) lists the positions t with x_tf != 0. Active-set sweeps walk label-major arrays (K, N):
one state's row stays in the L2 cache while its columns go by. Screening needs every state of a feature at once and
walks a position-major copy (N, width) in tiles of positions that fit into the cache.

Speed: these loops are bound by latency and address arithmetic, not by bandwidth. Sums are split by hand into four,
since the compiler's own vectorised gather is several times slower than four plain loads; the casts to unsigned save the
test for negative indices.

Shapes: F features, N positions, K states. indptr: int64 (F + 1,); indices: int32 or int64 (nnz,), ascending in a
column; values: float64 (nnz,), or (0,) where every stored value is 1. states, features: the coordinates' (n,).
"""

import numpy as np

from crfqn.kernels import IN_ORDER, inner, kernel, subkernel
from crfqn.kernels.rows import add_picked, new_rows

TRANSPOSED_TOGETHER = 64  # positions: their rows stay in the first cache while the states go by


@inner
def first_at(begin, end, indices, position):
    """Return the first of the sorted indices[begin ... end - 1] that is at least `position`, `end` if there is none."""
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
    """Add up two measures of curvature of the coordinates c = first ... last - 1, with x = x_{t,f_c} and p = p_t(k_c).

    majorant[c] = sum_t x^2 |r_t|, r the residuals weight (p - observed), and curvature[c] = sum_t weight x^2 p (1 - p)
    = sum_t x^2 |r_t| (1 - |r_t| / weight), whether the state is observed or not.
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
    """scores[k_c, t] += weights[c] x_{t,f_c} for c = first ... last - 1: the image of a sparse direction."""
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

    With the largest size of each position's residuals as factors no state's gradient is larger.
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
    float64 (K, N), out : float64 (N, at least K)."""
    for start in range(first, last, TRANSPOSED_TOGETHER):
        stop = start + TRANSPOSED_TOGETHER if start + TRANSPOSED_TOGETHER < last else last
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
    """target[j, i] = source[i, j], by squares that stay in the first cache; `target` may be wider than that."""
    n, m = source.shape
    for i_first in range(0, n, TRANSPOSED_TOGETHER):
        i_last = min(i_first + TRANSPOSED_TOGETHER, n)
        for j_first in range(0, m, TRANSPOSED_TOGETHER):
            for j in range(j_first, min(j_first + TRANSPOSED_TOGETHER, m)):
                for i in range(i_first, i_last):
                    target[j, i] = source[i, j]


@kernel(counts=False)
def feature_gradients(features, cursor, block, tile, indptr, indices, values, residual, out):
    """out[i, k] = sum_t x_tf residual[t, k] for the features f = features[i] and every state; out is zero before.

    cursor : int64, indptr[features], overwritten
    residual : float64 (N, width), position-major; block, tile : features and positions at a time, to fit the caches
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

    A position's sums stay in registers while its entries go by; over columns each entry would load and store them.
    table : float64 (F, width), scores : float64 (K, N), K <= width.
    """
    sums = new_rows(TRANSPOSED_TOGETHER, table.shape[1])
    for start in range(first, last, TRANSPOSED_TOGETHER):
        stop = min(start + TRANSPOSED_TOGETHER, last)
        sums[: stop - start] = 0.0
        for t in range(start, stop):
            add_picked(sums[t - start], table, indices, indptr[t], indptr[t + 1], values)
        for k in range(scores.shape[0]):
            for t in range(start, stop):
                scores[k, t] += sums[t - start, k]


@kernel
def add_feature_rows(first, features, table, indptr, indices, values, image):
    """image[t - first] += sum_i x_tf table[i], f = features[i], for the positions t = first, first + 1, ... of `image`,
    position-major; table : float64 (features, width)."""
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


# ---- scores of positions from their entries, for prediction: each entry adds its feature's weights. The sweeps over
# columns read all features that have weights; for one sentence that is thousands of times too much.


LOW = 32  # bits of a key that say which entry it is; those above are its column


@inner(sums=IN_ORDER)
def sort_keys(keys, n):
    """Sort the first n integers in place: Shell's sort, which for a dozen is insertion sort."""
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
    """Write the columns of an entry and its place in the row as one number a key, ascending; returns how many."""
    n, before, is_sorted = np.int64(0), np.int64(-1), True
    for e in range(begin, end):
        if columns[e] >= 0:
            key = (np.int64(columns[e]) << LOW) + (e - begin)
            is_sorted &= before < key
            keys[n] = before = key
            n += 1
    if not is_sorted:
        sort_keys(keys, n)
    return n


@kernel(sums=IN_ORDER)
def score_entries(first, last, row_ends, columns, values, heads, states, places, weights, initial, scores):
    """scores[k, t] = initial[k] + sum_f x_tf w_kf for t = first ... last - 1, x_tf the sum of the entries (t, f).

    The sums are taken in the order of the features: bit by bit those of `add_columns`. Returns whether all x_tf are
    finite, and the rows ascend within the entries.
    row_ends, columns, values : int64 (N + 1,), int32 (entries,), float64 (entries,) or (0,) where all are 1; in any
        order; entries without a column have one below 0, the others one below F
    heads, states, places : int64 (F + 1,), int32 (weights,), int64 (weights,) or (0,): feature f has the weights
        weights[places[j]], or weights[j], for states[j], j = heads[f] ... heads[f + 1] - 1
    """
    longest, is_sound, low = 0, True, (np.int64(1) << LOW) - 1
    for t in range(first, last):
        is_sound &= 0 <= row_ends[t] <= row_ends[t + 1] <= columns.size
        longest = max(longest, row_ends[t + 1] - row_ends[t])
    if not is_sound:
        return False
    keys, row = np.empty(longest, np.int64), np.empty(initial.size)
    for t in range(first, last):
        begin = row_ends[t]
        for k in range(
            row.size
        ):  # no slices: for their messages numba compiles its strings, for a second and a half
            row[k] = initial[k]
        n, e = row_keys(begin, row_ends[t + 1], columns, keys), 0
        while e < n:
            f, x = keys[e] >> LOW, 0.0
            while e < n and keys[e] >> LOW == f:
                x += values[begin + (keys[e] & low)] if values.size > 0 else 1.0
                e += 1
            is_sound &= np.isfinite(x)
            for j in range(heads[f], heads[f + 1]):
                row[states[j]] += x * (weights[places[j]] if places.size > 0 else weights[j])
        for k in range(row.size):
            scores[k, t] = row[k]
    return is_sound


def is_range(numbers: np.ndarray) -> bool:
    """Whether sorted, distinct integers are all those from the first to the last, as coordinates are where every weight
    counts: their places then need no search."""
    return numbers.size > 0 and bool(numbers[-1] - numbers[0] == numbers.size - 1)


def places(numbers: np.ndarray, some: np.ndarray) -> np.ndarray | slice:
    """Return an index to `some` of the `numbers`, both sorted and distinct."""
    if not is_range(numbers):
        return found_in(numbers, some)[0]
    if not is_range(some):
        return some - numbers[0]
    first = int(some[0] - numbers[0])
    return slice(first, first + some.size)


def sorted_union(*arrays: np.ndarray) -> np.ndarray:
    """Return the distinct numbers of sorted arrays of distinct ones: one of these where it has no gaps and all the
    others lie between its ends, or are empty."""
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
    """merged[:n] = the distinct numbers of two sorted arrays of distinct ones; returns n."""
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
    """Return the place of each query in the sorted `numbers`, as `find` has it, and whether it is there."""
    place, is_there = np.zeros(queries.size, np.int64), np.zeros(queries.size, bool)
    if numbers.size:
        find(numbers, queries, place, is_there)
    return place, is_there


def entries_at(queries: np.ndarray, numbers: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Return the entries of a sparse vector, sorted `numbers` and their float64 `values`, at some places; 0 where it
    has none."""
    out = np.zeros(queries.size)
    place, is_there = found_in(numbers, queries)
    out[is_there] = values[place[is_there]]
    return out


@kernel(counts=False)
def find(numbers, queries, place, is_there):
    """place[j] = that of the first of the sorted `numbers` that is at least queries[j], the last if there is none: a
    galloping search from the last place, a few comparisons each where the queries are sorted too."""
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
