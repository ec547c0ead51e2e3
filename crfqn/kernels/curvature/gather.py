"""Dense rows of sampled positions for chosen features, out of the feature-indexed store (CSC).

For the dense token-wise model of the Hessian, whose matrix products want them. Store arrays as in `sparse/columns.py`.
"""

import numpy as np

from crfqn.kernels import kernel


@kernel
def gather_features(first, last, features, place, indptr, indices, values, out):
    """out[i, place[t]] = x_{t,f} for f = features[i] and the sampled positions t, those with place[t] >= 0.

    out: float32 (number of features, number of sampled positions), zero before; place: int32 (N,).
    """
    for i in range(first, last):
        for e in range(indptr[features[i]], indptr[features[i] + 1]):
            t = place[indices[e]]
            if t >= 0:
                out[i, t] = np.float32(values[e]) if values.size > 0 else np.float32(1.0)
