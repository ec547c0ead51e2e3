"""Steps of block-coordinate Frank-Wolfe on structured hinges: the parts that all structures share.

An item's dual variables are a distribution over its labellings. All that counts of it is what it expects, mu_i, as
counts of the states (and edges) that hold:

    w = (1 / l2) sum_i c_i X_i' (observed_i - mu_i)

A step moves mu_i towards the counts of the labelling that violates its margin most, y' = argmax_y L(y_i, y) + score(y):

    Delta = mu_i - counts(y'),   gap_i = -c_i <Delta, scores with L added>,
    gamma = min(1, l2 gap_i / (c_i^2 |X_i' Delta|^2)),   mu_i -= gamma Delta,   w += gamma (c_i / l2) X_i' Delta

(Lacoste-Julien et al. 2013, Algorithm 4; there lambda n = l2 and c_i = 1). Its weighted average of all w so far is
sum_k k w_k / sum_k k = w - 2 / (n (n + 1)) sum_k k (k - 1) / 2 (w_k - w_{k-1}), over the steps k = 1 ... n.

Shapes: as in `kernels/online/mistakes.py`.
"""

from crfqn.kernels import subkernel
from crfqn.kernels.online.mistakes import N_SEEN, free_square


@subkernel
def step_on_rows(chosen, sums, gap, mass, rows):
    """Move the weights along the best part of the way to y', and return gamma.

    chosen : int64 (n,), the rows that may move; sums : float64 (n or more, width), X_i' Delta of each; gap : gap_i /
    c_i > 0; mass : c_i / l2; rows : `AveragedRows`, whose `corrections` are what the weighted average lacks
    """
    square = mass * free_square(chosen, sums, rows)
    gamma = gap / square if gap < square else 1.0
    length, n_before = mass * gamma, rows.counters[N_SEEN]
    lacked = length * 0.5 * n_before * (n_before + 1.0)
    for j in range(chosen.size):
        weights, corrections = rows.weights[chosen[j]], rows.corrections[chosen[j]]
        for k in range(weights.size):
            weights[k] += length * sums[j, k]
            corrections[k] += lacked * sums[j, k]
    return gamma
