"""Limits of time: who sees them, and when."""

import threading
import time

import numpy as np
import pytest

from crfqn.threads import SLICE_OPERATIONS, Pool, in_time
from crfqn.time_limit import GRACE_SECONDS, TimeIsUp, TimeLimit, check_time, end_computations, open_limits


def spent(seconds=0.0):
    """A limit that was over so many seconds ago."""
    return TimeLimit(-seconds)


def test_a_step_has_some_time_after_the_limit():
    with spent() as limit:
        check_time()
        assert limit.is_over()
    with TimeLimit(None) as limit:
        check_time()
        assert not limit.is_over()


def test_a_limit_raises_once():
    with spent(GRACE_SECONDS) as limit:
        with pytest.raises(TimeIsUp):
            check_time()
        assert limit.was_met
        check_time()  # its owner keeps what has been learnt
    assert open_limits() == []


def test_limits_around_a_computation_hold_in_it():
    with spent(GRACE_SECONDS), TimeLimit(None), pytest.raises(TimeIsUp):
        check_time()
    with TimeLimit(-GRACE_SECONDS, is_answered=False):
        check_time()  # nobody would answer
        with TimeLimit(None), pytest.raises(TimeIsUp):
            check_time()


def test_a_limit_is_of_one_thread():
    seen = []
    with spent(GRACE_SECONDS):
        thread = threading.Thread(target=lambda: (check_time(), seen.append(open_limits())))
        thread.start()
        thread.join()
    assert seen == [[]]


def test_a_signal_ends_computations():
    assert not end_computations()
    with TimeLimit(None, is_answered=False):
        assert not end_computations()
        with TimeLimit(None) as limit:
            assert end_computations()
            assert limit.is_over()
            assert limit.end <= time.perf_counter()


@pytest.mark.parametrize("n_threads", [1, 3])
def test_a_pool_begins_no_task_after_the_limit(n_threads):
    begun = []

    def task(part):
        begun.append(part)
        open_limits()[0].end = -np.inf if open_limits() else None

    with Pool(n_threads) as pool, TimeLimit(None), pytest.raises(TimeIsUp):
        pool.each(1000, lambda part: task(part) if open_limits() else time.sleep(1e-3))
    assert len(begun) == 1  # by the thread that waits


def test_pieces_are_all_there_is_in_order():
    for operations in (np.zeros(0), np.full(7, 0.4), np.array([0.1, 3.0, 0.1, 0.2, 0.9, 0.9, 0.0])):
        pieces = list(in_time(SLICE_OPERATIONS * operations))
        everything = np.arange(operations.size)
        assert np.concatenate([everything[piece] for piece in pieces]).tolist() == everything.tolist()
        for piece in pieces:
            assert operations[piece].sum() <= 1.0 + operations[piece].max(initial=0.0)
    assert len(pieces) == 4
    assert len(list(in_time(SLICE_OPERATIONS * operations, 100 * SLICE_OPERATIONS))) == 1


def test_pieces_end_with_the_limit():
    with TimeLimit(None) as limit:
        pieces = in_time(SLICE_OPERATIONS * np.ones(10))
        next(pieces)
        limit.end = -np.inf
        with pytest.raises(TimeIsUp):
            next(pieces)
