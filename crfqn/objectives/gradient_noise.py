"""The noise of gradients: how large a weight's gradient would be if its feature had nothing to do with the labels.

At zero weights, let r_t be the derivative of the loss by the scores of position t, whose item counts c_t times, and v
the mean over the K states of the variances of r over the positions (for a likelihood (1 - sum_k p_k^2) / K, p the
shares of the labels). If a feature's values were independent of the labels, the gradient by its weight for a state,
sum_t c_t x_tf r_t less what the shares of the labels explain, would have on average over the states the variance

    v sum_t c_t x_tf^2.

Where unpenalised intercepts take up what a feature's mean brings, x_tf is taken less its mean over the positions: a
shift of the features does not change the optimum either. A penalty has to hold against this noise: Bickel, Ritov and
Tsybakov (Annals of Statistics 2009) and Belloni and Chernozhukov (Bernoulli 2013) choose the strength of L1 penalties
in proportion to it. It grows as the root of the number of items where features are dense, and stays as it is where new
items bring new features, as words. Shapes: N positions, F features, K states.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from crfqn.arrays import NO_WEIGHTS, Coords, Vector
from crfqn.objectives.linear.coordinates import split_coords
from crfqn.objectives.objective import Objective

ROUNDING = 1e-12  # of a sum of squares, that is no sign of a feature that varies


def gradient_noise(objective: Any, unpenalised: Coords) -> float:
    """Return the standard deviation of a weight's gradient under labels that mean nothing, on average; 0 for one label.

    The mean is over the features that occur, without those of `unpenalised` coordinates (the intercept's); over the
    states it is that of squares. O(K N) and a pass over the data.
    """
    parts = objective.parts
    occurring = np.sum([part.map.weighted_squares(part.position_weights) for part in parts], axis=0)
    if unpenalised.size:
        occurring = about_means(parts, occurring)
    occurring[parts[0].split(unpenalised).features] = 0.0
    lengths = np.sqrt(occurring[occurring > 0])
    return float(np.sqrt(residual_variance(parts)) * lengths.mean()) if lengths.size else 0.0


def about_means(parts: list[Objective], squares: Vector) -> Vector:
    """Return sum_t c_t (x_tf - m_f)^2 of `squares`, sum_t c_t x_tf^2, m the means; 0 where rounding is left, (F,)."""
    sums, total = np.zeros(squares.size), 0.0
    every = split_coords(np.arange(squares.size), 1, squares.size)
    for part in parts:
        sums += part.map.adjoint(every, part.position_weights[None, :])
        total += float(part.position_weights.sum())
    found = squares - sums**2 / total
    return np.where(found > ROUNDING * squares, found, 0.0)


def unit_information(objective: Any, unpenalised: Coords) -> float:
    """Return the curvature of the loss by a weight at zero that one position brings; 0 for one label: v median_f
    max_t x_tf^2 over the features that occur, as a likelihood's curvature is its gradient's variance. Neither the few
    features of a huge unit nor those of a tiny one, as words of long texts have by tf-idf, say what counts."""
    parts = objective.parts
    scales = np.maximum.reduce([part.map.feature_scales for part in parts])
    scales[parts[0].split(unpenalised).features] = 0.0
    occurring = scales[scales > 0]
    return residual_variance(parts) * float(np.median(occurring)) if occurring.size else 0.0


def residual_variance(parts: list[Objective]) -> float:
    """Return the mean over the states of the variances of the residual at zero weights, items counted by weight."""
    moments = np.sum([residual_moments(part) for part in parts], axis=0)  # (2, K)
    total = sum(float(part.position_weights.sum()) for part in parts)
    first, second = moments / total
    return max(float((second - first**2).mean()), 0.0)


def residual_moments(part: Objective) -> Vector:
    """Return the sums of the residual and of its squares by state, (2, K)."""
    residual = part.at(*NO_WEIGHTS).evaluation.residual
    squares = np.einsum("kt,kt,t->k", residual, residual, part.inverse_weights)
    return np.array([residual.sum(axis=1), squares])
