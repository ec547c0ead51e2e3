"""One fit of sklearn-contrib-lightning's CDClassifier; run by an interpreter that has it.

    python lightning_fit.py FOLDER LOSS STRENGTH SECONDS

FOLDER holds X.npz (scipy, CSR) and y.npy; epochs.npz is written there: after each epoch the seconds, and the weights
that are not zero as coordinates label * features + feature. The objective is the mean loss + STRENGTH times the norms
of the rows. Nothing of crfqn is used, nor anything newer than what lightning needs.
"""

import sys
from pathlib import Path
from time import process_time

import numpy as np
from lightning.classification import CDClassifier
from scipy.sparse import csc_matrix, load_npz

WARM_UP_ITEMS = 500
MOST_EPOCHS = 1000


def fit(X, y, loss, strength, limit, note=None):
    """Train for so many seconds; `note(weights)` after every epoch, off the clock."""
    begin, rows = [process_time()], []

    def after_epoch(model):
        now = process_time()
        rows.append(now - begin[0])
        if note is not None:
            note(model.coef_)
        begin[0] += process_time() - now
        return True if rows[-1] > limit else None

    CDClassifier(
        loss=loss, penalty="l1/l2", multiclass=True, C=1.0 / X.shape[0], alpha=strength, max_iter=MOST_EPOCHS,
        tol=0.0, callback=after_epoch, n_calls=X.shape[1], random_state=0,
    ).fit(X, y)  # fmt: skip
    return rows


def main(folder, loss, strength, limit):
    """Warm up, train, write."""
    X, y = csc_matrix(load_npz(folder / "X.npz")), np.load(folder / "y.npy")
    fit(X[:WARM_UP_ITEMS], y[:WARM_UP_ITEMS], loss, strength, 1.0)
    kept = []
    seconds = fit(X, y, loss, strength, limit, lambda w: kept.append((np.flatnonzero(w), w[w != 0.0])))
    lengths = [coords.size for coords, _ in kept]
    coords, values = (np.concatenate(column) for column in zip(*kept))  # noqa: B905 - an old Python will do
    np.savez(folder / "epochs.npz", seconds=seconds, lengths=lengths, coords=coords, values=values)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], float(sys.argv[3]), float(sys.argv[4]))
