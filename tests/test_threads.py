"""The pool: every part once whatever the number of threads, errors that come through, clear messages."""

import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from crfqn.errors import InputError
from crfqn.threads import MIN_POOL_OPERATIONS, Pool, available_cores, check_n_threads


def in_a_process(script):
    """What a script prints, which is killed if it hangs: threads that wait for ever cannot be stopped from within."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "script.py")
        path.write_text(script)
        command = [sys.executable, "-W", "error", str(path)]
        found = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert found.returncode == 0, found.stderr
    return found.stdout


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
    finished, is_under_way = [], threading.Barrier(2, timeout=20)

    def task(part):
        is_under_way.wait()
        if part == 0:
            raise error
        time.sleep(0.1)
        finished.append(part)

    with Pool(2) as pool:
        with pytest.raises(error):
            pool.each(2, task)
        assert finished == [1]


@pytest.mark.parametrize("bad", [0, 99])
def test_nothing_begins_after_an_error(bad):
    done, has_failed = [], threading.Event()

    def task(part):
        if part == bad:
            has_failed.set()
            raise ZeroDivisionError
        assert has_failed.wait(20)
        time.sleep(0.05)  # until the exception has left the other thread's task
        done.append(part)

    with Pool(2) as pool, pytest.raises(ZeroDivisionError):
        pool.each(100, task)
    assert len(done) <= 1  # what the other thread was at


NESTED = """
import threading
from crfqn.threads import Pool
done = []
with Pool({n_threads}) as pool:
    def outer(i):
        own = threading.get_ident()
        pool.each(3, lambda j: pool.each(2, lambda k: done.append((i, j, k, threading.get_ident() == own))))
    pool.each(8, outer)
    assert not pool.is_inside
print(sorted(done) == [(i, j, k, True) for i in range(8) for j in range(3) for k in range(2)])
"""


@pytest.mark.parametrize("n_threads", [1, 2, 4])
def test_a_task_that_asks_its_own_pool(n_threads):
    """The threads would wait for each other, so each does the work that it asks for itself."""
    assert in_a_process(NESTED.format(n_threads=n_threads)) == "True\n"


def test_another_pool_has_threads_of_its_own():
    meeting = threading.Barrier(2, timeout=20)
    with Pool(2) as outer, Pool(2) as inner:
        outer.each(2, lambda part: inner.each(2, lambda _: meeting.wait()) if part == 0 else None)


class TestThreadsAreStartedForWork:
    """Counted at the executor: to start one takes longer than to label a sentence."""

    @pytest.fixture
    def started(self, monkeypatch):
        made = []

        def counting(n_workers, **options):
            made.append(n_workers)
            return executor(n_workers, **options)

        from crfqn import threads

        executor = threads.ThreadPoolExecutor
        monkeypatch.setattr(threads, "ThreadPoolExecutor", counting)
        return made

    def test_none_for_one_part_or_few_operations(self, started):
        done = []
        with Pool(4) as pool:
            pool.each(0, done.append)
            pool.each(1, done.append)
            pool.each(5, done.append, n_operations=MIN_POOL_OPERATIONS - 1)
            assert done == [0, 0, 1, 2, 3, 4]
            assert started == []

    def test_once_for_more(self, started):
        done = []
        with Pool(4) as pool:
            for _ in range(3):
                pool.each(5, done.append, n_operations=MIN_POOL_OPERATIONS)
            pool.each(5, done.append)
        assert sorted(done) == sorted(4 * [0, 1, 2, 3, 4])
        assert started == [3]


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


GROUP = """
import numpy as np
from crfqn.kernels import kernel
from crfqn.kernels.thread_group import barrier, join, work_together
from crfqn.threads import Pool

@kernel
def work(team, n_members, rank, failing, n_barriers):
    member, size = join(team, n_members, rank)
    for count in range(n_barriers):
        if count == 1 and member == failing and size == n_members:
            return np.zeros(1 << 50).sum() + size  # no machine has that much memory
        barrier(team, member, size, count + 1)
    return 1.0 * size

def outcome(pool, n_members, failing):
    work(np.zeros(64, np.int64), 1, 0, -1, 1)  # compiled
    for _ in range(1000):  # on a busy machine a group may go ahead before all have come: then again
        try:
            sizes = work_together(pool, n_members, lambda team, rank: work(team, n_members, rank, failing, 100))
        except MemoryError:
            return "failed"
        if max(sizes) == n_members:
            return "done"

with Pool(3) as pool:
    print(*(outcome(pool, n, failing) for n, failing in [(2, 0), (2, 1), (3, 0), (3, 2), (3, -1), (2, -1)]))
"""


def test_a_member_of_a_thread_group_that_runs_out_of_memory():
    """The others stop waiting for it, the exception comes through, and the pool goes on."""
    assert in_a_process(GROUP).split() == 4 * ["failed"] + 2 * ["done"]


BEFORE_THE_KERNEL = """
from functools import partial
from threading import Barrier
from crfqn.kernels import kernel
from crfqn.kernels.thread_group import barrier, join, work_together
from crfqn.threads import Pool

@kernel
def work(team, n_members, rank):
    member, size = join(team, n_members, rank)
    if size > 0:
        barrier(team, member, size, 1)
    return size

def run(everybody, failing, error, team, rank):
    everybody.wait()
    if rank == failing:
        raise error
    return work(team, 2, rank)

for failing in (0, 1):
    for error in (ZeroDivisionError, KeyboardInterrupt):
        with Pool(2) as pool:
            try:
                work_together(pool, 2, partial(run, Barrier(2), failing, error))
            except error:
                print("came through")
"""


def test_a_member_that_never_gets_to_the_kernel():
    assert in_a_process(BEFORE_THE_KERNEL).splitlines() == 4 * ["came through"]


REAL_KERNELS = """
import threading
import numpy as np
from crfqn import MulticlassClassifier
from crfqn.kernels.thread_group import join, work_together
from crfqn.solvers.coordinate import row_state as row_views
from crfqn.threads import Pool

def failing(pool, n_members, run):
    first = threading.Lock()
    def member(team, rank):
        if first.acquire(blocking=False):
            print("members", join(team, n_members, rank)[1])
            raise MemoryError
        return run(team, rank)
    return work_together(pool, n_members, member)

row_views.work_together = failing
random = np.random.default_rng(0)

def rows():
    x, y = random.normal(size=(2000, 30)), random.integers(0, 4, 2000)
    MulticlassClassifier(group_l1=1.0, solver="bcd", n_threads=2).fit(x, y)

for work in (rows,):
    try:
        work()
        print("no failure")
    except MemoryError:
        print("came through")
"""


def test_kernels_whose_other_member_has_failed():
    """They come to an end, whatever the other one has left undone."""
    lines = in_a_process(REAL_KERNELS).splitlines()
    assert lines[1::2] == ["came through"]
    assert all(line.startswith("members") for line in lines[::2])


def test_who_comes_after_a_failure_does_not_begin():
    from crfqn.kernels.thread_group import NO_RANK, give_up, join, new_group

    group = new_group(2)
    give_up(group)
    assert join(group, 2, NO_RANK) == (0, 0)
