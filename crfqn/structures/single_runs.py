"""Best labellings of an item in which some labels form no more than one run each: exact, in numpy.

A best-first search (A*) extends partial labellings in the order of an upper bound of their score. The bound comes from
Viterbi's recursion over states extended by the set of the labels whose run has begun (`completions`). The sets contain
active labels only: at first those that the item's best labelling repeats, later those that slow the search down. The
bound ignores the rule for the other labels; the search enforces it for all labels, so that results are exact.

Shapes: T positions, K states, G groups of states that form single runs, A active groups.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from heapq import heappop, heappush
from itertools import count
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from crfqn.arrays import Vector
from crfqn.errors import InputError
from crfqn.structures.item_chain import BestPath, best_steps
from crfqn.structures.span_rules import SpanRules
from crfqn.time_limit import check_time

MAX_GROUPS = 8  # of active groups, a limit of time: the bounds are computed for 2^8 = 256 sets
# Limit of memory: 128 MB of float64 for the bounds, and as much for the states of partial labellings.
MAX_TABLE_NUMBERS = 1 << 24
# If the search extends more labellings than this number times the length, one more group becomes active.
EXTENSIONS_PER_POSITION = 200
MAX_EXTENSIONS = 100_000  # the limit of extended labellings if no other group can become active

# The states of a partial labelling as a linked list, the last state first.
PartialPath: TypeAlias = tuple[int, "PartialPath"] | None


def repeats(states: NDArray[np.integer], offsets: NDArray[np.int64], rules: SpanRules) -> dict[int, set[int]]:
    """Return the groups with more than one run, by item; states : (N,); offsets : (I + 1,)."""
    runs = rules.find(states, offsets)
    item_of = np.searchsorted(offsets, runs.starts, side="right") - 1
    repeated: dict[int, set[int]] = {}
    for (item, group), n in Counter(zip(item_of.tolist(), runs.types.tolist(), strict=True)).items():
        if n > 1:
            repeated.setdefault(item, set()).add(group)
    return repeated


def best_of_single_runs(
    nodes: Vector, tables: Sequence[Vector], rules: SpanRules, groups: set[int], n: int = 1
) -> list[BestPath]:
    """Return the n best labellings of an item in which each group of states forms no more than one run, or all if there
    are fewer than n.

    Parameters
    ----------
    nodes : float64 (T, K), scores of the states; -inf forbids
    tables : T matrices (K, K), scores of the transitions to each position; the first is not used
    rules : SpanRules, the group of each state, -1 for none, and which neighbours belong to one run
    groups : the first active groups
    n : number of labellings, >= 1

    Raises
    ------
    InputError
        The search extended MAX_EXTENSIONS partial labellings: many more labels than MAX_GROUPS are repeated everywhere.
    """
    length, n_states = nodes.shape
    if not length:
        return [BestPath([], 0.0)]
    sets = MAX_TABLE_NUMBERS / (max(length, n_states) * n_states)
    max_active = min(MAX_GROUPS, int(np.log2(max(2.0, sets))))
    active = sorted(groups)[:max_active]
    while True:
        limit = EXTENSIONS_PER_POSITION * length * n if len(active) < max_active else MAX_EXTENSIONS
        limit = min(limit, MAX_TABLE_NUMBERS // n_states)
        paths, refused = _search(nodes, tables, rules, active, n, limit)
        if paths is not None:
            return paths
        others = [group for group, _ in refused.most_common() if group not in active]
        if len(active) == max_active or not others:
            raise InputError(
                f"once: expected a smaller number of labels: more than {max_active} are repeated in labellings of an "
                f"item of {length} positions, and none of the {limit:,} best partial ones keeps the rule"
            )
        active.append(others[0])


def completions(nodes: Vector, tables: Sequence[Vector], rules: SpanRules, active: Sequence[int]) -> Vector:
    """Return the best score of the positions after each position, (T, 2^A, K), by the set of the active groups whose
    runs have begun and by the state at the position. Viterbi's recursion backwards, O(T 2^A K^2)."""
    length, n_states = nodes.shape
    n_sets = 1 << len(active)
    bit_of = _bits(rules, active)
    sets = np.arange(n_sets)[:, None]
    # If a state begins a run: the next set, and whether the rule forbids it because the group has had its run.
    begun, is_closed = sets | bit_of, (sets & bit_of) > 0
    continues = rules.continues & (bit_of > 0)  # whether a transition stays in a run of an active group

    def scores_after_transition(scores: Vector) -> Vector:
        check_time()
        begins = np.where(is_closed, -np.inf, np.take_along_axis(scores, begun, axis=0))
        return np.where(continues, scores[:, None, :], begins[:, None, :])

    best = np.zeros((length, n_sets, n_states))
    rows = np.broadcast_to(nodes[::-1, None], best.shape)
    for t, (_, reached) in enumerate(best_steps(rows, tables[:0:-1], spread=scores_after_transition), 2):
        best[-t] = reached
    return best


def _search(
    nodes: Vector, tables: Sequence[Vector], rules: SpanRules, active: Sequence[int], n: int, limit: int
) -> tuple[list[BestPath] | None, Counter[int]]:
    """Return the n best labellings, or None after `limit` extensions; and, by group, the number of extensions that the
    rule refused.

    Partial labellings are extended in the order of the best score that they can still reach. Those with the same
    position, state and begun groups have the same continuations: only n of them are extended.
    """
    length, n_states = nodes.shape
    bounds = completions(nodes, tables, rules, active)
    bits, all_states = _bits(rules, active), np.arange(n_states)
    tie, n_extended = count(), 0
    queue: list[tuple[float, int, int, int, _Branches]] = []
    extended: Counter[tuple[int, int, int]] = Counter()
    n_refused = np.zeros(n_states, np.int64)
    paths: list[BestPath] = []

    def push(branches: _Branches, rank: int) -> None:
        if rank < len(branches.states):
            heappush(queue, (-float(branches.bounds[rank]), -branches.t, next(tie), rank, branches))

    def branch(
        t: int, steps: Vector, begun: int, set_begun: int, is_begun: NDArray[np.bool_], before: PartialPath
    ) -> None:
        """Queue the continuations at position t of the partial labelling `before`.

        steps : (K,), the score of `before` extended by each state at t
        begun, set_begun : bits of all groups, and of the active groups, whose runs have begun
        is_begun : bool (K,), whether the run of a state's group has begun
        """
        is_refused = is_begun if before is None else is_begun & ~rules.continues[before[0]]
        n_refused[is_refused & (steps > -np.inf)] += 1
        reachable = np.where(is_refused, -np.inf, steps + bounds[t, set_begun | bits, all_states])
        states = np.argsort(-reachable, kind="stable")[: np.count_nonzero(reachable > -np.inf)]
        push(_Branches(t, states, reachable[states], steps, begun, set_begun, is_begun, before), 0)

    branch(0, nodes[0], 0, 0, np.zeros(n_states, bool), None)
    while queue and len(paths) < n:
        check_time()
        _, _, _, rank, at = heappop(queue)
        push(at, rank + 1)
        state = int(at.states[rank])
        path, score, begun, is_begun = (state, at.before), float(at.steps[state]), at.begun, at.is_begun
        if at.t == length - 1:
            states: list[int] = []
            link: PartialPath = path
            while link is not None:
                states.append(link[0])
                link = link[1]
            paths.append(BestPath(states[::-1], score))
            continue
        group = int(rules.type_of[state])
        if group >= 0 and not begun >> group & 1:
            begun, is_begun = begun | 1 << group, is_begun | (rules.type_of == group)
        if extended[at.t, state, begun] >= n:
            continue
        extended[at.t, state, begun] += 1
        n_extended += 1
        if n_extended > limit:
            return None, _by_group(n_refused, rules)
        steps = score + nodes[at.t + 1] + tables[at.t + 1][state]
        branch(at.t + 1, steps, begun, at.set_begun | int(bits[state]), is_begun, path)
    return paths, _by_group(n_refused, rules)


class _Branches(NamedTuple):
    """Continuations of the partial labelling `before` at position t. When one of them is taken from the
    queue, the next one is queued: the queue has at most two for each extended labelling.

    states, bounds : the states by descending best score that they can still reach, and these scores
    steps, begun, set_begun, is_begun : as in `branch` of `_search`
    """

    t: int
    states: NDArray[np.intp]
    bounds: Vector
    steps: Vector
    begun: int
    set_begun: int
    is_begun: NDArray[np.bool_]
    before: PartialPath


def _bits(rules: SpanRules, active: Sequence[int]) -> NDArray[np.intp]:
    """Return the bit of each state's group, (K,), 0 for groups that are not active."""
    bits = np.zeros(len(rules.type_of), np.intp)
    for bit, group in enumerate(active):
        bits[rules.type_of == group] = 1 << bit
    return bits


def _by_group(n_refused: NDArray[np.int64], rules: SpanRules) -> Counter[int]:
    """Return the number of refused extensions by group, from those by state, (K,)."""
    refused: Counter[int] = Counter()
    for group, number in zip(rules.type_of.tolist(), n_refused.tolist(), strict=True):
        refused[group] += number
    return +refused
