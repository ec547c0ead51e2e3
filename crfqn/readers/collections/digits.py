"""Handwritten dates and times: the 8x8 digit scans that ship inside scikit-learn, strung into digit strings.

A string is a valid date `YYYYMMDD` (1950 to 2049) or time `HHMMSS`, half and half, so that which digit may
follow which carries information. No file, no network; training and test strings use different scans.
"""

import datetime

import numpy as np

from crfqn.readers.labeled import Labeled

FIRST_DAY = datetime.date(1950, 1, 1)
N_DAYS = (datetime.date(2049, 12, 31) - FIRST_DAY).days + 1
TEST_SHARE = 0.2


def make_digit_strings(n_train: int = 1500, n_test: int = 300, seed: int = 0) -> Labeled:
    """Generate dates and times written in scanned digits.

    Parameters
    ----------
    n_train, n_test : int
        Strings for training and for the test; the training strings come first.
    seed : int
        Seed of the text, of the cut of the scans (80 % : 20 % of each digit) and of their draw.

    Returns
    -------
    Labeled
        `inputs[i]` is a uint8 array (8 or 6, 64), grey values 0..16 row by row; labels "0".."9".
    """
    from sklearn.datasets import load_digits

    scans, digits = load_digits(return_X_y=True)
    scans = scans.astype(np.uint8)
    random = np.random.RandomState(seed)  # its stream is frozen by NumPy: the data is the same everywhere
    training: list[np.ndarray] = []
    testing: list[np.ndarray] = []
    for digit in range(10):
        scans_of_digit = random.permutation(np.flatnonzero(digits == digit))
        n_testing = round(TEST_SHARE * len(scans_of_digit))
        testing.append(scans_of_digit[:n_testing])
        training.append(scans_of_digit[n_testing:])
    inputs: list[np.ndarray] = []
    labels: list[list[str]] = []
    for n_strings, pools in ((n_train, training), (n_test, testing)):
        for _ in range(n_strings):
            text = _date_or_time(random)
            chosen = [pools[int(digit)][random.randint(len(pools[int(digit)]))] for digit in text]
            inputs.append(scans[chosen])
            labels.append(list(text))
    return Labeled(inputs, labels, n_train=n_train)


def _date_or_time(random: np.random.RandomState) -> str:
    if random.randint(2):
        return (FIRST_DAY + datetime.timedelta(days=random.randint(N_DAYS))).strftime("%Y%m%d")
    seconds = random.randint(24 * 60 * 60)
    return f"{seconds // 3600:02d}{seconds // 60 % 60:02d}{seconds % 60:02d}"
