"""Mixtures of items' distributions with their observed labels, a share for each: loops of `objectives/item_bound.py`.

The mixture of item i is s p + (1 - s) delta(y), with its distribution p, its labels y, its share s and pi = p(y). The
part of the item in the dual loss is the entropy of the mixture, which is concave in s. Its slope is t / c at

    s = 1 / (1 - pi + exp(t / (c (1 - pi)) - a)),    a = (H + pi log pi) / (1 - pi).

Shapes: I items, n coordinates. The entries of a coordinate are the parts of its gradient by item, sorted by item.
"""

from typing import NamedTuple

import numpy as np

from crfqn.kernels import kernel, subkernel
from crfqn.kernels.forward_backward import forward_backward, infer_in_logarithms
from crfqn.kernels.logarithms import NO_TABLES

MAX_SHARE = 4.0  # numerical guard: for s far above 1 the rounding of H would dominate
MAX_EXPONENT = 700.0  # numerical guard: exp(700) is finite
# One of so many rounds checks all coordinates; the others check those that were outside of their bounds, or less than
# RECHECK_MARGIN times the bound inside. The last round always checks all.
FULL_CHECK_INTERVAL = 6
RECHECK_MARGIN = 0.05  # fraction of a bound


class ItemParts(NamedTuple):
    """The parts of the gradients by item, compressed by coordinate.

    Attributes
    ----------
    starts : int64 (n + 1,)
    items : int32 (entries,)
    values : float32 (entries,)
    """

    starts: np.ndarray
    items: np.ndarray
    values: np.ndarray


class Mixtures(NamedTuple):
    """State of all items, float64 (I,) each.

    weights : c
    others : 1 - pi; 0 for items whose share stays 1
    entropies : a, the conditional entropy of the other labellings minus log(1 - pi)
    slopes, shares : t and s, in and out
    """

    weights: np.ndarray
    others: np.ndarray
    entropies: np.ndarray
    slopes: np.ndarray
    shares: np.ndarray


@kernel
def gather_parts(states, features, indptr, indices, values, item_of, residual, parts):
    """Sum x_tf residual[k, t] over the positions of each item, for nodes (k, f); return the number of entries."""
    n = 0
    for j in range(states.size):
        k, f, last = states[j], features[j], -1
        parts.starts[j] = n
        for e in range(indptr[f], indptr[f + 1]):
            t = indices[e]
            x = residual[k, t] * (values[e] if values.size > 0 else 1.0)
            if item_of[t] == last:
                parts.values[n - 1] += x
            else:
                last = item_of[t]
                parts.items[n], parts.values[n] = last, x
                n += 1
    parts.starts[states.size] = n
    return n


@kernel
def gather_edges(offsets, scores, edges, targets, weights, chosen, parts, products):
    """Compute the residuals of some edges, `chosen` int64 (n,) of K K, item by item.

    parts : float64 (n, I), out; products : float64 (I,), out: the sum over all edges of edge score times residual
    """
    n_states = edges.shape[0]
    counts = np.empty((n_states, n_states))
    residual, sums = np.empty(scores.shape), np.zeros((offsets.size - 1, 3))
    item = np.empty(1, np.int64)
    for i in range(offsets.size - 1):
        counts[:], item[0] = 0.0, i
        forward_backward(item, offsets, scores, edges, targets, weights, residual, counts, sums)
        if np.isnan(sums[i, 0]):
            infer_in_logarithms(
                item, offsets, scores, edges, NO_TABLES, targets, weights, residual, counts, sums
            )
        total = 0.0
        for j in range(n_states):
            for k in range(n_states):
                total += edges[j, k] * counts[j, k] if counts[j, k] != 0.0 else 0.0
        products[i] = total
        for e in range(chosen.size):
            parts[e, i] = counts.reshape(-1)[chosen[e]]


@subkernel
def coordinate_sum(j, parts, shares):
    """Return the gradient of coordinate j at these shares."""
    total = 0.0
    for e in range(parts.starts[j], parts.starts[j + 1]):
        total += parts.values[e] * shares[parts.items[e]]
    return total


@subkernel
def share_at(i, mixtures):
    """Return the share of item i that belongs to its slope t."""
    others = mixtures.others[i]
    exponent = mixtures.slopes[i] / (mixtures.weights[i] * others) - mixtures.entropies[i]
    exponent = min(max(exponent, -MAX_EXPONENT), MAX_EXPONENT)
    return min(1.0 / (others + np.exp(exponent)), MAX_SHARE)


@subkernel
def meet_bound(j, sign, goal, enough, l2, parts, mixtures, max_steps):
    """Move the slopes along coordinate j until sign * gradient - l2 * move <= goal + enough, by Newton's method; return
    the length of the move."""
    moved = 0.0
    for _ in range(max_steps):
        gradient = 0.0
        curvature = l2
        largest = 0.0
        for e in range(parts.starts[j], parts.starts[j + 1]):
            i, value = parts.items[e], sign * parts.values[e]
            others, share = mixtures.others[i], mixtures.shares[i]
            gradient += value * share
            if others > 0.0:
                left = max(1.0 - share * others, 0.0)
                curvature += value * value * share * left / (others * mixtures.weights[i])
                largest = max(largest, abs(value) / (others * mixtures.weights[i]))
        excess = gradient - l2 * moved - goal
        if excess <= enough or curvature <= 0.0 or largest == 0.0:
            break
        step = min(excess / curvature, 1.0 / largest)  # no exponent moves by more than 1
        moved += step
        for e in range(parts.starts[j], parts.starts[j + 1]):
            i = parts.items[e]
            if mixtures.others[i] > 0.0:
                mixtures.slopes[i] += step * sign * parts.values[e]
                mixtures.shares[i] = share_at(i, mixtures)
    return moved


@subkernel
def find_outside(round_number, bounds, tolerance, parts, shares, near, excess):
    """Return the coordinates outside of their bounds, the farthest first.

    Every FULL_CHECK_INTERVAL-th round checks all coordinates and lists those near their bounds in `near`, int64
    (n + 1,), their number first. The other rounds check only these. excess : float64 (n,), of the checked coordinates,
    out.
    """
    n = bounds.size
    if round_number % FULL_CHECK_INTERVAL == 0:
        count = 0
        for j in range(n):
            excess[j] = abs(coordinate_sum(j, parts, shares)) - bounds[j]
            if excess[j] > -RECHECK_MARGIN * bounds[j]:
                count += 1
                near[count] = j
        near[0] = count
    outside = np.empty(near[0], np.int64)
    over = np.empty(near[0])
    count = 0
    for place in range(1, near[0] + 1):
        j = near[place]
        if round_number % FULL_CHECK_INTERVAL != 0:
            excess[j] = abs(coordinate_sum(j, parts, shares)) - bounds[j]
        if excess[j] > tolerance * bounds[j]:
            outside[count], over[count] = j, -excess[j]
            count += 1
    return outside[:count][np.argsort(over[:count])]


@kernel
def project_shares(bounds, l2, parts, mixtures, tolerance, beyond, max_rounds):
    """Bring the gradients at the shares within their bounds, one coordinate after the other (Hildreth's method).

    bounds : float64 (n,), in and out: with l2 > 0 a bound grows by l2 times the moves of its coordinate
    tolerance : fraction of its bound by which a gradient may exceed it
    beyond : distance inside the bound to which a gradient is moved, as a fraction of its excess
    max_rounds : maximum number of rounds; in each one the coordinates outside move in the order of their excess
    """
    near, excess = np.empty(bounds.size + 1, np.int64), np.empty(bounds.size)
    round_number = 0
    while round_number < max_rounds:
        outside = find_outside(round_number, bounds, tolerance, parts, mixtures.shares, near, excess)
        if outside.size == 0:
            if round_number % FULL_CHECK_INTERVAL == 0:
                return
            round_number += FULL_CHECK_INTERVAL - round_number % FULL_CHECK_INTERVAL
            continue
        round_number += 1
        for j in outside:
            gradient = coordinate_sum(j, parts, mixtures.shares)
            over = abs(gradient) - bounds[j]
            if over > 0.0:
                sign = 1.0 if gradient > 0.0 else -1.0
                goal = bounds[j] - beyond * over
                bounds[j] += l2 * meet_bound(j, sign, goal, 0.1 * over, l2, parts, mixtures, 3)


@kernel
def lower_shares(bounds, parts, shares, tolerance, max_rounds):
    """Multiply the shares that push a gradient out of its bounds by one factor, until no gradient is outside. Shares
    only decrease, and with shares of 0 all gradients are 0. Parameters as in `project_shares`."""
    near, excess = np.empty(bounds.size + 1, np.int64), np.empty(bounds.size)
    round_number = 0
    while round_number < max_rounds:
        outside = find_outside(round_number, bounds, tolerance, parts, shares, near, excess)
        if outside.size == 0:
            if round_number % FULL_CHECK_INTERVAL == 0:
                return
            round_number += FULL_CHECK_INTERVAL - round_number % FULL_CHECK_INTERVAL
            continue
        round_number += 1
        for j in outside:
            gradient = coordinate_sum(j, parts, shares)
            over = abs(gradient) - bounds[j]
            if over <= 0.0:
                continue
            pushed = 0.0
            for e in range(parts.starts[j], parts.starts[j + 1]):
                if parts.values[e] * gradient > 0.0:
                    pushed += abs(parts.values[e]) * shares[parts.items[e]]
            factor = max(1.0 - over / pushed, 0.0)
            for e in range(parts.starts[j], parts.starts[j + 1]):
                if parts.values[e] * gradient > 0.0:
                    shares[parts.items[e]] *= factor
