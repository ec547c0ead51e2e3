"""Thread groups: threads that run one kernel on shares of the same work and meet at barriers within it.

A thread pool takes 50 microseconds to distribute parts, but a row of block coordinate descent takes 5. The members of a
group therefore run the same kernel on shares of each row, with 100,000 barriers a second. At a barrier each member
writes the number of barriers that it has reached, and reads the others' numbers until they agree. What a member writes
before a barrier, the others read after it (Mellor-Crummey and Scott, "Algorithms for scalable synchronization on
shared-memory multiprocessors", 1991).

If a member fails, it marks the group (`give_up`), and barriers no longer block: the others run to the end of the
kernel, or leave it if `has_failed`. Their results are invalid, and the exception is raised where the group was started.

    group   int64, zeros at first, from `new_group`. Place 0 counts the members that have joined, place 1 is 1 once a
            member has failed; then each member's slot has a cache line with the number of barriers that it has reached
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
from numba import types
from numba.core.typing import signature

from crfqn.kernels import inner, kernel
from crfqn.kernels.numba_internals import LANES, exchange, load_acquire, store_release

Result = TypeVar("Result")

MAX_SPINS = 2000  # reads of another member's number, some microseconds, before the core is yielded
NO_RANK = -1  # of the threads of a group that is not full
FAILURE_PLACE = 1  # place of `group` that is 1 once a member has failed
MAX_YIELDS = 4000  # yields, about a millisecond, before a group starts without its missing members

yield_core = types.ExternalFunction(
    "SwitchToThread" if sys.platform == "win32" else "sched_yield", signature(types.intc)
)


def new_group(n_members: int) -> np.ndarray:
    """Return the shared array of a group of n_members."""
    return np.zeros((n_members + 1) * LANES, np.int64)


def work_together(pool: Any, n_members: int, run: Callable[[np.ndarray, int], Result]) -> list[Result]:
    """Return the results of run(group, rank) in n_members threads of a `threads.Pool`, in any order. The exception of a
    member is raised after all have returned; what the group has written is then invalid."""
    group, results = new_group(n_members), []

    def run_member(_: int) -> None:
        try:
            results.append(run(group, pool.rank if n_members == pool.n_threads else NO_RANK))
        except BaseException:
            give_up(group)
            raise

    pool.each(n_members, run_member)
    return results


@kernel(counts=False)
def give_up(group):
    """Mark the group as failed, so that barriers no longer block."""
    store_release(group, FAILURE_PLACE, 1)


@inner
def has_failed(group):
    """Return whether a member has failed: all results are invalid, and a kernel may return early."""
    return load_acquire(group, FAILURE_PLACE) != 0


@kernel(counts=False)
def join(group, n_members, rank):
    """Join a group of up to n_members; return this thread's slot and the size of the group, or (0, 0) if the group has
    already started or failed.

    In a full group the slot of a thread is its rank, unless that is NO_RANK: the thread's cache then has its data of
    the previous group. If members are missing because the pool is busy or interrupted, the group starts without them.
    Place 0 is then minus the number of members, and slots are in the order of joining.
    """
    slot = load_acquire(group, 0)
    while slot >= 0 and not exchange(group, slot, slot + 1):
        slot = load_acquire(group, 0)
    if slot < 0 or has_failed(group):
        return 0, 0
    n_spins = 0
    while True:
        n_there = load_acquire(group, 0)
        if n_there == n_members:
            return slot if rank == NO_RANK else rank, n_members
        if n_there < 0:
            return slot, -n_there
        n_spins += 1
        if n_spins > MAX_SPINS:
            yield_core()
        if n_spins > MAX_SPINS + MAX_YIELDS:
            exchange(group, n_there, -n_there)


@inner
def barrier(group, slot, size, number):
    """Return when all `size` members have reached the barrier `number`, counted from 1, or one has failed."""
    store_release(group, (slot + 1) * LANES, number)
    for other in range(size):
        n_spins = 0
        while load_acquire(group, (other + 1) * LANES) < number:
            n_spins += 1
            if n_spins > MAX_SPINS:
                if has_failed(group):
                    break
                yield_core()
