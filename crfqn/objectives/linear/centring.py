"""Implicit centring: training on x - m instead of x, where the weight of a constant feature is free to make up for it.

    w . x + b = w . (x - m) + b',    b' = b + w . m

Weights and values are the same whatever m is; what changes is how far the constant and the other features, and these
among one another, are from orthogonal, and so how many iterations a training takes. The map subtracts m
(`FeatureMap.centre`); here weights are converted.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from crfqn.objectives.linear.coordinates import merge_weights
from crfqn.objectives.linear.feature_map import FeatureMap


def centred_weights(features: FeatureMap, weights: Any) -> Any:
    """Return weights of the features as they were given as weights of the map's, x - m."""
    return _with_constant_moved(features, weights, 1.0)


def given_weights(features: FeatureMap, weights: Any) -> Any:
    """Return weights of the map's features, x - m, as weights of the features as they were given."""
    return _with_constant_moved(features, weights, -1.0)


def _with_constant_moved(features: FeatureMap, weights: Any, sign: float) -> Any:
    """Add sign * w . m to the weight of the last feature of every state."""
    if features.centre is None or weights.coords.size == 0:
        return weights
    states, columns = np.divmod(weights.coords, features.n_features)
    moves = np.bincount(states, sign * weights.weights * features.centre[columns]).astype(
        np.float64, copy=False
    )
    constants = np.arange(1, moves.size + 1) * features.n_features - 1
    return merge_weights(weights.coords, weights.weights, constants, moves)
