"""Projections of predictions onto probabilities: Euclidean, onto the simplex and onto the hypercube.

Shapes: predictions (K, N), a column for each of N items, K labels.
"""

from __future__ import annotations

import numpy as np

from crfqn.arrays import Vector
from crfqn.projections import project_simplex


def onto_simplex(table: Vector) -> Vector:
    """Return the nearest point of the simplex to each column, (K, N)."""
    return np.ascontiguousarray(project_simplex(table.T).T)


def onto_hypercube(table: Vector) -> Vector:
    """Return the nearest point of [0, 1]^K to each column, (K, N)."""
    return np.clip(table, 0.0, 1.0)


def clipped(table: Vector, is_exclusive: bool) -> Vector:
    """Return the projection onto the simplex where an item has one label, else onto the hypercube."""
    return onto_simplex(table) if is_exclusive else onto_hypercube(table)
