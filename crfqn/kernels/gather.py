"""Dense rows of sampled positions for chosen features, out of the feature-indexed store."""

import numpy as np

from crfqn.kernels import kernel


@kernel
def gather_features(first, last, features, stride, offset, indptr, indices, values, out):
    """out[i, t // stride] = x_{t,f} for f = features[i] and the positions t = offset (mod stride).

    out: float32 (number of features, number of sampled positions), zero before.
    """
    for i in range(first, last):
        for e in range(indptr[features[i]], indptr[features[i] + 1]):
            t = indices[e]
            if t % stride == offset:
                out[i, t // stride] = np.float32(values[e]) if values.size > 0 else np.float32(1.0)
