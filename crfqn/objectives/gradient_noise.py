"""The noise of gradients: the size of a weight's gradient if its feature were independent of the labels.

At zero weights, let r_t be the derivative of the loss by the scores of position t, whose item counts c_t times, and v
the mean over the K states of the variances of r over the positions (for a likelihood (1 - sum_k p_k^2) / K, p the
shares of the labels). If a feature's values were independent of the labels, the gradient by its weight for a state,
sum_t c_t x_tf r_t minus the part that the shares of the labels explain, would have on average over the states the
variance

    v sum_t c_t x_tf^2.

With unpenalised intercepts, the mean of x_tf over the positions is subtracted, because the intercepts absorb it: a
shift of the features does not change the optimum either. A penalty should exceed this noise: Bickel, Ritov and Tsybakov
(Annals of Statistics 2009) and Belloni and Chernozhukov (Bernoulli 2013) choose the strength of L1 penalties in
proportion to it. It grows with the root of the number of items if features are dense, and stays constant if new items
have new features, such as words. Chains without any feature, which have weights of transitions alone, have the noise of
a feature that is 1 at each position. Shapes: N positions, F features, K states.
"""

from __future__ import annotations

import numpy as np

from crfqn.arrays import NO_COORDS, NO_WEIGHTS, Coords, Vector
from crfqn.objectives.linear.feature_map import CoordinateParts
from crfqn.objectives.objective import Objective
from crfqn.objectives.part import Part

# Guard: a smaller share of the sum of squares is rounding of a constant feature
CONSTANT_FEATURE_TOLERANCE = 1e-12


def gradient_noise(objective: Objective, unpenalised: Coords, besides: Coords = NO_COORDS) -> float:
    """Return the mean standard deviation of a weight's gradient under uninformative labels; 0 for one label.

    The mean is over the features that occur, without those of `unpenalised` coordinates (the intercept) and of the
    coordinates `besides`; over the states it is the root of the mean square. O(K N) and a pass over the data.
    """
    occurring = np.sum(objective.map_parts(occurrences if objective.n_features else total_weight), axis=0)
    occurring = np.atleast_1d(occurring)
    if unpenalised.size:  # sum_t c_t (x_tf - m_f)^2, m the means; 0 for mere rounding
        sums, totals = zip(*objective.map_parts(weighted_sums), strict=True)
        centred = occurring - sum(sums) ** 2 / sum(totals)
        occurring = np.where(centred > CONSTANT_FEATURE_TOLERANCE * occurring, centred, 0.0)
    for coords in (unpenalised, besides):
        occurring[objective.split(coords).features] = 0.0
    lengths = np.sqrt(occurring[occurring > 0])
    return float(np.sqrt(residual_variance(objective)) * lengths.mean()) if lengths.size else 0.0


def occurrences(part: Part) -> Vector:
    """Return sum_t c_t x_tf^2 of each feature, (F,)."""
    return part.map.weighted_squares(part.position_weights)


def weighted_sums(part: Part) -> tuple[Vector, float]:
    """Return sum_t c_t x_tf of each feature, (F,), and sum_t c_t."""
    every = CoordinateParts.from_coords(np.arange(part.n_features), 1, part.n_features)
    return part.map.adjoint(every, part.position_weights[None, :]), total_weight(part)


def total_weight(part: Part) -> float:
    """Return the sum of the positions' weights."""
    return float(part.position_weights.sum())


def unit_information(objective: Objective, unpenalised: Coords) -> float:
    """Return the curvature that one position adds to the loss by a weight at zero; 0 for one label. It is v median_f
    max_t x_tf^2 over the features that occur, because a likelihood's curvature is the variance of its gradient; the
    median ignores features with huge or tiny units, such as those of tf-idf."""
    if not objective.n_features:
        return residual_variance(objective)
    scales = objective.feature_scales.copy()
    scales[objective.split(unpenalised).features] = 0.0
    occurring = scales[scales > 0]
    return residual_variance(objective) * float(np.median(occurring)) if occurring.size else 0.0


def residual_variance(objective: Objective) -> float:
    """Return the mean over the states of the variances of the residual at zero weights, items counted by weight."""
    moments = np.sum(objective.map_parts(residual_moments), axis=0)  # (2, K)
    first, second = moments / sum(objective.map_parts(total_weight))
    return max(float((second - first**2).mean()), 0.0)


def residual_moments(part: Part) -> Vector:
    """Return the sums of the residual and of its squares by state, (2, K)."""
    residual = part.at(*NO_WEIGHTS).evaluation.residual
    squares = np.einsum("kt,kt,t->k", residual, residual, part.inverse_weights)
    return np.array([residual.sum(axis=1), squares])
