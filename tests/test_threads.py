"""The pool: every part once whatever the number of threads, errors that come through, clear messages."""

import threading
import time

import numpy as np
import pytest

from crfqn.errors import InputError
from crfqn.threads import Pool, available_cores, check_n_threads


@pytest.mark.parametrize("n_threads", [1, 2, 3, 8])
@pytest.mark.parametrize("n_parts", [0, 1, 2, 7, 32])
def test_every_part_once(n_threads, n_parts):
    done = []
    with Pool(n_threads) as pool:
        for _ in range(3):  # a pool serves many calls
            pool.each(n_parts, done.append)
    assert sorted(done) == sorted(3 * list(range(n_parts)))


def test_threads_run_at_the_same_time():
    meeting = threading.Barrier(3, timeout=20)
    names = set()

    def task(_):
        meeting.wait()  # breaks unless three parts are under way together
        names.add(threading.get_ident())

    with Pool(3) as pool:
        pool.each(3, task)
    assert len(names) == 3


def test_one_thread_stays_in_the_calling_thread_and_in_order():
    done = []
    with Pool(1) as pool:
        pool.each(5, lambda part: done.append((part, threading.get_ident())))
    assert done == [(part, threading.get_ident()) for part in range(5)]


@pytest.mark.parametrize("n_threads", [1, 2, 3])
@pytest.mark.parametrize("bad", [0, 1, 2, 9])
def test_exceptions_come_through(n_threads, bad):
    def task(part):
        if part == bad:
            raise ZeroDivisionError(f"part {part}")

    with Pool(n_threads) as pool:
        with pytest.raises(ZeroDivisionError, match=f"part {bad}"):
            pool.each(10, task)
        done = []
        pool.each(4, done.append)  # and the pool still works
    assert sorted(done) == [0, 1, 2, 3]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_no_task_outlives_an_error(error):
    finished = []

    def task(part):
        if part == 0:
            raise error
        time.sleep(0.1)
        finished.append(part)

    with Pool(2) as pool:
        with pytest.raises(error):
            pool.each(2, task)
        assert finished == [1]


def test_sums_by_part_do_not_depend_on_the_order():
    numbers = np.random.default_rng(0).normal(size=(32, 1000))

    def total(n_threads):
        rows = np.zeros(32)

        def task(part):
            time.sleep(0.001 * (part % 3))
            rows[part] = numbers[part].sum()

        with Pool(n_threads) as pool:
            pool.each(32, task)
        return rows.sum()

    assert total(1) == total(2) == total(3)


def test_all_cores_by_default():
    assert check_n_threads(None) == available_cores() >= 1
    with Pool() as pool:
        assert pool.n_threads == available_cores()


@pytest.mark.parametrize("n_threads", [0, -1, 1.5, 2.0, "2", True, False, [2]])
def test_bad_numbers_of_threads(n_threads):
    with pytest.raises(InputError) as caught:
        Pool(n_threads)
    assert str(caught.value) == f"n_threads: expected None or an integer >= 1, got {n_threads!r}"


def test_integers_of_numpy_are_integers():
    assert check_n_threads(np.int64(2)) == 2


def test_closed():
    pool = Pool(2)
    pool.close()
    with pytest.raises(RuntimeError, match="after shutdown"):
        pool.each(2, lambda part: None)
