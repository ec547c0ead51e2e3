"""Thread groups: threads that run one kernel and wait for each other a hundred thousand times a second.

A thread pool hands out parts in 50 microseconds; a row of block coordinate descent takes 5. So the members of a group
run the same kernel on shares of the same row and wait for each other at barriers within it: each writes how many it has
come to, and watches the others' counts. Whatever a member has written before a barrier, the others read after it
(Mellor-Crummey and Scott, "Algorithms for scalable synchronization on shared-memory multiprocessors", 1991).

A member that fails says so (`give_up`), and from then on nobody waits: the others run to the end of the kernel, or
leave where they ask `has_failed`, their results are of no use, and the exception reaches whoever started the group.

group: int64, zeros before, from `new_group`: place 0 counts arrivals, place 1 is 1 once a member has failed; then a
cache line for each member's slot: the barriers that it has come to.
"""

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
from numba import types
from numba.core.typing import signature

from crfqn.kernels import inner, kernel
from crfqn.kernels.numba_internals import LANES, exchange, load_acquire, store_release

# Readings of another's count before the core is offered to other threads: some microseconds.
MOST_SPINS = 2000
NO_RANK = -1
FAILED = 1  # the place that says so
PATIENCE = 4000  # offers of the core before a group goes without those who have not come: a millisecond

yield_core = types.ExternalFunction(
    "SwitchToThread" if sys.platform == "win32" else "sched_yield", signature(types.intc)
)


def new_group(n_members: int) -> np.ndarray:
    """Return the shared array of a group of so many members."""
    return np.zeros((n_members + 1) * LANES, np.int64)


def work_together(pool: Any, n_members: int, run: Callable[[np.ndarray, int], Any]) -> list[Any]:
    """Return the results of run(group, rank) in n_members threads of a `threads.Pool`, in no promised order; a member's
    exception is raised once all have come back, and what the group has written is then of no use."""
    group, found = new_group(n_members), []

    def come(_: int) -> None:
        try:
            found.append(run(group, pool.rank if n_members == pool.n_threads else NO_RANK))
        except BaseException:
            give_up(group)
            raise

    pool.each(n_members, come)
    return found


@kernel(counts=False)
def give_up(group):
    """Tell the others that a member has failed, so that they wait for it no longer."""
    store_release(group, FAILED, 1)


@inner
def has_failed(group):
    """Return whether a member has failed: a kernel may leave early, all results being of no use."""
    return load_acquire(group, FAILED) != 0


@kernel(counts=False)
def join(group, n_members, rank):
    """Join a group of up to n_members; returns this thread's slot and the group's size, or (0, 0) if too late.

    Too late are also those who come when a member has failed.

    In a full group a thread's slot is its rank, unless this is NO_RANK, so that it finds in its cache what it left
    there the last time. A group whose members do not all come goes ahead with those that have: a pool may be busy or
    interrupted. Place 0 is then minus their number, and their slots are in the order of their coming.
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
        if n_spins > MOST_SPINS:
            yield_core()
        if n_spins > MOST_SPINS + PATIENCE:
            exchange(group, n_there, -n_there)


@inner
def barrier(group, slot, size, number):
    """Wait until all `size` members have come to the barrier `number`, counted from 1, or one has failed."""
    store_release(group, (slot + 1) * LANES, number)
    for other in range(size):
        n_spins = 0
        while load_acquire(group, (other + 1) * LANES) < number:
            n_spins += 1
            if n_spins > MOST_SPINS:
                if has_failed(group):
                    break
                yield_core()
