"""Thread groups: threads that run one kernel and wait for each other a hundred thousand times a second.

A thread pool hands out parts in 50 microseconds; a row of block coordinate descent takes 5. So the members of a group
(a team) run the same kernel on shares of the same row and meet at barriers within it: each writes how many barriers it
has come to, and watches the others' counts. Whatever a member has written before a barrier, the others read after it.

A member that fails comes to no barrier any more. It says so (`give_up`), and from then on nobody waits: the others run
to the end of the kernel, or leave where they look at `has_failed`, what they find is of no use, and the exception
reaches whoever started the group.

team: int64 (places,), zeros before, from `new_team`: place 0 counts arrivals, place 1 is 1 once a member has failed;
then a cache line for each member: its barriers, and its looks at others while it waited (the spin count).
"""

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
from numba import types
from numba.core.typing import signature
from numba.extending import intrinsic

from crfqn.kernels import bare_kernel, inner
from crfqn.kernels.rows import LANES, array_at

MOST_LOOKS = 2000  # at another's count before the core is offered to others: some microseconds
NO_RANK = -1
FAILED = 1  # the place that says so
PATIENCE = 4000  # offers of the core before a team goes without those who have not come: a millisecond

yield_core = types.ExternalFunction(
    "SwitchToThread" if sys.platform == "win32" else "sched_yield", signature(types.intc)
)


def _place(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    return builder.gep(array_at(context, builder, sig, args, 0).data, [args[1]])


@intrinsic
def look(typing: Any, group: Any, place: Any) -> Any:
    """team[place], and everything that was written before it was."""

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return builder.load_atomic(_place(context, builder, sig, args), "acquire", 8)

    return types.int64(group, types.intp), generate


@intrinsic
def show(typing: Any, group: Any, place: Any, number: Any) -> Any:
    """team[place] = number, for others to see."""

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        builder.store_atomic(args[2], _place(context, builder, sig, args), "release", 8)
        return context.get_dummy_value()

    return types.void(group, types.intp, types.int64), generate


@intrinsic
def exchange(typing: Any, group: Any, expected: Any, number: Any) -> Any:
    """team[0] = number if it is as expected; whether it was."""

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        place = array_at(context, builder, sig, args, 0).data
        pair = builder.cmpxchg(place, args[1], args[2], "acq_rel", "acquire")
        return builder.extract_value(pair, 1)

    return types.boolean(group, types.int64, types.int64), generate


def new_group(n_members: int) -> np.ndarray:
    """Places for as many members."""
    return np.zeros((n_members + 1) * LANES, np.int64)


def work_together(pool: Any, n_members: int, run: Callable[[np.ndarray, int], Any]) -> list[Any]:
    """Return what run(team, rank) returns in n_members threads of a pool (`threads.Pool`), in no promised order.

    A member's exception is raised once all have come back; what the group has written is then of no use.
    """
    group, found = new_group(n_members), []

    def come(_: int) -> None:
        try:
            found.append(run(group, pool.rank if n_members == pool.n_threads else NO_RANK))
        except BaseException:
            give_up(group)
            raise

    pool.each(n_members, come)
    return found


@bare_kernel
def give_up(group):
    """Tell the others that a member has failed, so that they wait for it no longer."""
    show(group, FAILED, 1)


@inner
def has_failed(group):
    """Whether a member has failed: a kernel may leave early, all results being of no use."""
    return look(group, FAILED) != 0


@bare_kernel
def join(group, n_members, rank):
    """Join a team of up to n_members; returns the member's number and how many there are, or (0, 0) if too late.

    Too late are also those who come when a member has failed.

    In a full team a thread's number is its rank, if it has one, so that it finds in its cache what it left there the
    last time. A team whose members do not all come goes ahead with those that have: a pool may be busy or interrupted.
    Place 0 is then minus their number, and they are numbered as they came.
    """
    number = look(group, 0)
    while number >= 0 and not exchange(group, number, number + 1):
        number = look(group, 0)
    if number < 0 or has_failed(group):
        return 0, 0
    n_looks = 0
    while True:
        n_there = look(group, 0)
        if n_there == n_members:
            return number if rank == NO_RANK else rank, n_members
        if n_there < 0:
            return number, -n_there
        n_looks += 1
        if n_looks > MOST_LOOKS:
            yield_core()
        if n_looks > MOST_LOOKS + PATIENCE:
            exchange(group, n_there, -n_there)


@inner
def barrier(group, number, n_members, meeting):
    """Wait until all members have come to the barrier `meeting`, counted from 1, or one has failed."""
    show(group, (number + 1) * LANES, meeting)
    n_all = 0
    for other in range(n_members):
        n_looks = 0
        while look(group, (other + 1) * LANES) < meeting:
            n_looks += 1
            if n_looks > MOST_LOOKS:
                if has_failed(group):
                    break
                yield_core()
        n_all += n_looks
    if n_all > 0:
        group[(number + 1) * LANES + 1] += n_all


@inner
def looks_of(group, number):
    """How many looks at others a member has waited for, in all of its meetings."""
    return group[(number + 1) * LANES + 1]
