"""Best labellings of an item in which some labels form at most one run each: exact, by numpy alone.

Viterbi's recursion over states that are extended by the set of labels whose run has begun (`completions`) bounds what a
labelling can still add, and a best-first search (A*) with this bound finds the n best labellings that keep the rule.
The sets are those of the labels that matter in an item: at first the ones that its best labelling repeats, then those
that the search is held up by. The others bound the search as if they had no rule, and are held by the search itself, so
that each result is exact. Shapes: T positions, K states, G groups of states of which each forms at most one run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from heapq import heappop, heappush
from itertools import count
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crfqn.arrays import Vector
from crfqn.errors import InputError
from crfqn.structures.item_chain import BestPath
from crfqn.structures.span_rules import SpanRules

MOST_GROUPS = 8  # in the extended states of an item: 256 sets
LARGEST_NUMBERS = 1 << 27  # of an item's bounds: 1 GB
FIRST_LIMIT = (
    200  # partial labellings that the search extends for each position, before another group joins the sets
)
LAST_LIMIT = 100_000  # partial labellings in all, once no group can join any more


def repeats(states: NDArray[Any], offsets: NDArray[np.int64], rules: SpanRules) -> dict[int, set[int]]:
    """Return the groups that form more than one run, by the item that has them; states : (N,); offsets : (I + 1,)."""
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
    """Return the n best labellings of an item in which each group of states forms at most one run, fewer where there
    are fewer.

    Parameters
    ----------
    nodes : float64 (T, K), scores of the states, -inf where one is ruled out
    tables : T matrices (K, K), scores of the transitions to each position; the first is not used
    rules : SpanRules, the group of each state, -1 for none, and which neighbours belong to one run
    groups : groups that the extended states begin with
    n : number of labellings, >= 1

    Raises
    ------
    InputError
        The search extended LAST_LIMIT partial labellings: many more labels than MOST_GROUPS are repeated everywhere.
    """
    length = len(nodes)
    if not length:
        return [BestPath([], 0.0)]
    most = min(MOST_GROUPS, int(np.log2(max(2.0, LARGEST_NUMBERS / nodes.size))))
    active = sorted(groups)[:most]
    while True:
        limit = FIRST_LIMIT * length * n if len(active) < most else LAST_LIMIT
        paths, refused = _search(nodes, tables, rules, active, n, limit)
        if paths is not None:
            return paths
        others = [group for group, _ in refused.most_common() if group not in active]
        if len(active) == most or not others:
            raise InputError(
                f"once: expected fewer labels: more than {most} of them are repeated in the labellings of an item of "
                f"{length} positions, and none of the {limit:,} best partial ones keeps the rule"
            )
        active.append(others[0])


def completions(nodes: Vector, tables: Sequence[Vector], rules: SpanRules, active: Sequence[int]) -> Vector:
    """Return the best score of the positions behind each, (T, 2^A, K): by the set of the A active groups whose run has
    begun, up to this position, and by the state at it. Viterbi's recursion, backwards, O(T 2^A K^2)."""
    length, n_states = nodes.shape
    n_sets = 1 << len(active)
    bit_of = np.zeros(n_states, np.intp)
    for place, group in enumerate(active):
        bit_of[rules.type_of == group] = 1 << place
    sets = np.arange(n_sets)[:, None]
    begun, is_closed = sets | bit_of, (sets & bit_of) > 0  # of a state that begins a run
    continues = rules.continues & (bit_of > 0)  # within an active group
    best = np.zeros((length, n_sets, n_states))
    for t in range(length - 2, -1, -1):
        onwards = best[t + 1] + nodes[t + 1]
        begins = np.where(is_closed, -np.inf, np.take_along_axis(onwards, begun, axis=0))
        steps = np.where(continues, onwards[:, None, :], begins[:, None, :]) + tables[t + 1]
        best[t] = steps.max(axis=2)
    return best


def _search(
    nodes: Vector, tables: Sequence[Vector], rules: SpanRules, active: Sequence[int], n: int, limit: int
) -> tuple[list[BestPath] | None, Counter[int]]:
    """Return the n best labellings, None if more than `limit` partial ones would have to be extended; and how often
    each group refused an extension.

    Partial labellings are extended in the order of the best score that they can still reach. Those that share
    position, state and groups begun have the same continuations, so that at most n of them are extended.
    """
    length = len(nodes)
    bounds = completions(nodes, tables, rules, active)
    group_of, continues = rules.type_of.tolist(), rules.continues.tolist()
    place_of = {group: 1 << place for place, group in enumerate(active)}
    tie, n_extended = count(), 0
    queue: list[tuple[float, int, int, int, int, int, float, Any]] = []
    extended: Counter[tuple[int, int, int]] = Counter()
    refused: Counter[int] = Counter()
    paths: list[BestPath] = []

    def push(
        t: int, begun: int, set_begun: int, score: float, before: Any, states: Vector, last: int
    ) -> None:
        """Queue the continuations of a partial labelling at position t; begun, set_begun: its groups, all and active
        ones, as bits; states: (K,), scores of position t with the transitions to it."""
        for state in np.flatnonzero(states > -np.inf).tolist():
            group, all_begun, active_begun = group_of[state], begun, set_begun
            if group >= 0 and not (last >= 0 and continues[last][state]):
                if begun >> group & 1:
                    refused[group] += 1
                    continue
                all_begun |= 1 << group
                active_begun |= place_of.get(group, 0)
            total = score + float(states[state])
            bound = total + float(bounds[t, active_begun, state])
            if bound > -np.inf:
                heappush(queue, (-bound, -t, next(tie), state, all_begun, active_begun, total, before))

    push(0, 0, 0, 0.0, None, nodes[0], -1)
    while queue and len(paths) < n:
        _, minus_t, _, state, begun, set_begun, score, before = heappop(queue)
        t, path = -minus_t, (state, before)
        if t == length - 1:
            states: list[int] = []
            while path is not None:
                states.append(path[0])
                path = path[1]
            paths.append(BestPath(states[::-1], score))
            continue
        if extended[t, state, begun] >= n:
            continue
        extended[t, state, begun] += 1
        n_extended += 1
        if n_extended > limit:
            return None, refused
        push(t + 1, begun, set_begun, score, path, nodes[t + 1] + tables[t + 1][state], state)
    return paths, refused
