"""Mixtures of items' distributions with their observed labels, a share for each: loops of `objectives/item_bound.py`.

Item i has the share s of its distribution p and 1 - s of its labels y, pi = p(y). Its part of the dual loss, the
entropy of s p + (1 - s) delta(y), is concave in s, and where its slope is t / c,

    s = 1 / (1 - pi + exp(t / (c (1 - pi)) - a)),    a = (H + pi log pi) / (1 - pi).

Shapes: I items, n coordinates. A coordinate has entries of items: its parts of the gradient, sorted by item.
"""

from typing import NamedTuple

import numpy as np

from crfqn.kernels import kernel, subkernel
from crfqn.kernels.forward_backward import forward_backward, infer_in_logarithms
from crfqn.kernels.logarithms import NO_TABLES

LARGEST_SHARE = 4.0  # s > 1 takes from the observed labels; far beyond, rounding of H would count
LARGEST_EXPONENT = 700.0
WHOLE_LOOK = 6  # of so many looks at coordinates, one is at all of them
NEAR = 0.05  # of its bound: how far inside a coordinate is that is looked at in between


class ItemParts(NamedTuple):
    """Items' parts of gradients, compressed by coordinate.

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

    weights, others : c; 1 - pi, and 0 for items whose share stays 1
    entropies : a, the conditional entropy of the other labellings, less log(1 - pi)
    slopes, shares : t and s, in and out
    """

    weights: np.ndarray
    others: np.ndarray
    entropies: np.ndarray
    slopes: np.ndarray
    shares: np.ndarray


@kernel
def gather_parts(states, features, indptr, indices, values, item_of, residual, parts):
    """Sum x_tf residual[k, t] over the positions of each item, for nodes (k, f); returns the number of entries."""
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
    """Find each item's residuals of the edges `chosen`, int64 (n,), of K K, item by item; parts : float64 (n, I), out;
    products : float64 (I,), out, the sum of edge scores times residuals over all edges."""
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
    """Return the gradient of coordinate j at the shares."""
    total = 0.0
    for e in range(parts.starts[j], parts.starts[j + 1]):
        total += parts.values[e] * shares[parts.items[e]]
    return total


@subkernel
def share_at(i, mixtures):
    """Return the share at which the slope of item i's part is its t."""
    others = mixtures.others[i]
    exponent = mixtures.slopes[i] / (mixtures.weights[i] * others) - mixtures.entropies[i]
    exponent = min(max(exponent, -LARGEST_EXPONENT), LARGEST_EXPONENT)
    return min(1.0 / (others + np.exp(exponent)), LARGEST_SHARE)


@subkernel
def meet_bound(j, sign, goal, enough, l2, parts, mixtures, most_steps):
    """Move the slopes along coordinate j until sign * gradient - l2 * move <= goal, by Newton's method."""
    moved = 0.0
    for _ in range(most_steps):
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
def find_outside(look, bounds, tolerance, parts, shares, near, excess):
    """Return the coordinates outside of their bounds, the farthest first, and write the excess of those looked at: at
    all in every `WHOLE_LOOK`th look, else at those that were near their bounds then (near : their number first)."""
    n = bounds.size
    if look % WHOLE_LOOK == 0:
        count = 0
        for j in range(n):
            excess[j] = abs(coordinate_sum(j, parts, shares)) - bounds[j]
            if excess[j] > -NEAR * bounds[j]:
                count += 1
                near[count] = j
        near[0] = count
    outside = np.empty(near[0], np.int64)
    over = np.empty(near[0])
    count = 0
    for place in range(1, near[0] + 1):
        j = near[place]
        if look % WHOLE_LOOK != 0:
            excess[j] = abs(coordinate_sum(j, parts, shares)) - bounds[j]
        if excess[j] > tolerance * bounds[j]:
            outside[count], over[count] = j, -excess[j]
            count += 1
    return outside[:count][np.argsort(over[:count])]


@kernel
def project_shares(bounds, l2, parts, mixtures, tolerance, beyond, most_looks):
    """Bring the gradients at the shares within their bounds, one coordinate after the other (Hildreth's method).

    bounds : float64 (n,), in and out: with l2 > 0 a bound gives way by l2 times its coordinate's moves
    tolerance, beyond : the share of its bound by which a gradient may exceed it; how far inside it goes, as a share of
        the excess
    most_looks : of looks; in each, coordinates outside move in the order of their excess
    """
    near, excess = np.empty(bounds.size + 1, np.int64), np.empty(bounds.size)
    look = 0
    while look < most_looks:
        outside = find_outside(look, bounds, tolerance, parts, mixtures.shares, near, excess)
        if outside.size == 0:
            if look % WHOLE_LOOK == 0:
                return
            look += WHOLE_LOOK - look % WHOLE_LOOK
            continue
        look += 1
        for j in outside:
            gradient = coordinate_sum(j, parts, mixtures.shares)
            over = abs(gradient) - bounds[j]
            if over > 0.0:
                sign = 1.0 if gradient > 0.0 else -1.0
                goal = bounds[j] - beyond * over
                bounds[j] += l2 * meet_bound(j, sign, goal, 0.1 * over, l2, parts, mixtures, 3)


@kernel
def lower_shares(bounds, parts, shares, tolerance, most_looks):
    """Lower the shares that push a gradient out of its bounds, all by one factor, until none is outside: shares only
    fall, and at 0 all gradients are 0. Parameters as in `project_shares`."""
    near, excess = np.empty(bounds.size + 1, np.int64), np.empty(bounds.size)
    look = 0
    while look < most_looks:
        outside = find_outside(look, bounds, tolerance, parts, shares, near, excess)
        if outside.size == 0:
            if look % WHOLE_LOOK == 0:
                return
            look += WHOLE_LOOK - look % WHOLE_LOOK
            continue
        look += 1
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
