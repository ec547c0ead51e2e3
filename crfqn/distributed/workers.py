"""The client's view of the shards on a Dask cluster: which worker holds each, the bytes sent, the workers lost.

The client asks workers directly, because the scheduler would keep every array in its graph. If a worker is lost,
another worker reads its shard again. The next question sends the weights, from which the shard computes its points
again. A shard computes scores from all weights, and sums are over the shards in their order. So the results are the
same to the bit, whichever workers hold the shards.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING, Any, TypeVar
from uuid import uuid4

import numpy as np

from crfqn.arrays import NO_WEIGHTS, Coords, SparseWeights
from crfqn.distributed.shard import MakePart, Question, Shard
from crfqn.errors import CrfqnError, InputError
from crfqn.time_limit import check_time

if TYPE_CHECKING:
    from distributed import Client, Future

Reply = TypeVar("Reply")
# Limits of a network, not of the arithmetic: they change how soon a lost worker is noticed, and never a result.
CHECK_INTERVAL = 1.0  # seconds between two checks whether the worker is still connected
WORKER_TIMEOUT = (
    60.0  # seconds to wait for a first worker (by default), for a paused worker, and for the scheduler
)
CONNECT_TIMEOUT = 10.0  # seconds to connect to the scheduler
POLL_INTERVAL = 0.05  # seconds between two checks whether tasks are done
# Workers that a shard may lose in succession without an answer. More losses suggest too little memory.
MAX_LOSSES = 3

AGAIN = "call fit again; with checkpoint= (--checkpoint FOLDER) it continues from the last checkpoint"
NO_WORKER = (
    "no worker is left ({} lost), and none has come within {:g} seconds. Start workers, `dask worker {}`, with more "
    f"memory each (--memory-limit) if theirs was too little, and {AGAIN}. With a longer worker_timeout "
    "(--worker-timeout SECONDS) they have more time to start"
)
NO_ANSWER = "the scheduler of {!r} does not answer: see that it runs, connect a new client, and " + AGAIN
KILLED = (
    "shard {}: {} workers in a row were lost with it: too little memory? smaller shards need less, or give each worker "
    "more (`dask worker {} --memory-limit ...`); then " + AGAIN
)
CLOSED = "the client or its cluster was closed during the training: connect a new client, and " + AGAIN


class WorkersLostError(CrfqnError):
    """No worker is left, the client or its cluster is closed, or a shard has ended several workers."""


class _LostWorker(Exception):
    """The worker that holds the shard is not connected any more."""


@dataclass
class Tally:
    """Bytes sent to the workers and received from them, and the number of questions, each to one shard."""

    sent: int = 0
    received: int = 0
    n_questions: int = 0
    n_lost: int = 0  # workers, counted once for each of their shards


@dataclass(eq=False)
class Holder:
    """The client's state of a shard: how to read it, its worker, and the points, weights and coordinates sent to it.

    known : numbers of the points that the shard has
    last, coords : the weights and coordinates sent last, None if it is not known whether they arrived
    released : numbers of points and samples to drop with the next question
    """

    make: MakePart
    number: int
    address: str | None = None
    future: Future | None = None
    known: set[int] = field(default_factory=set)
    last: SparseWeights | None = NO_WEIGHTS
    coords: Coords | None = None
    released: deque[int] = field(default_factory=deque)
    n_losses: int = 0
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)

    def forget(self) -> None:
        """Reset the state after the loss of the worker."""
        self.address = self.future = self.coords = None
        self.known, self.last, self.released = set(), NO_WEIGHTS, deque()

    def mark_unknown(self, question: Question | None) -> None:
        """Reset what the shard has been sent, after a question that may not have arrived."""
        self.known, self.last, self.coords = set(), None, None
        self.released.extend(() if question is None else question.released)


class Workers:
    """The shards of a training and the client that asks them.

    client : distributed.Client, connected, synchronous
    makes : for each shard, a picklable function that its worker calls to make its part of the data
    worker_timeout : seconds to wait for a worker if none is connected

    Raises
    ------
    InputError
        If the client is of another type or not connected, or there are no shards.
    WorkersLostError
        If no worker connects within `worker_timeout` seconds.
    """

    def __init__(
        self, client: Client, makes: Sequence[MakePart], worker_timeout: float = WORKER_TIMEOUT
    ) -> None:
        check_client(client)
        if not makes:
            raise InputError("expected one or more shards, got none")
        self.client: Any = client  # dask's types include a client that is not connected
        self.worker_timeout, self.token = worker_timeout, uuid4().hex[:8]
        self.holders = [Holder(make, number) for number, make in enumerate(makes)]
        self.tally, self.numbers, self._names = Tally(), count(), count()
        self._seen: dict[str, int] = {}
        self._placement_lock = asyncio.Lock()

    def ask(self, questions: Sequence[tuple[Holder, Callable[[Holder], Question]]]) -> list[Any]:
        """Ask shards in parallel and return their answers. Each question is made when its shard is free, from the state
        of the shard at that time."""

        async def ask_all() -> list[Any]:
            tasks = [asyncio.ensure_future(self._ask_one(*question)) for question in questions]
            try:
                return await asyncio.gather(*tasks)
            finally:
                for task in tasks:
                    task.cancel()

        check_time()
        with while_connected(self.client):
            return self.client.sync(ask_all)

    def release(self, number: int) -> None:
        """Let all shards drop a point or a sample with their next question."""
        for holder in self.holders:
            holder.released.append(number)

    def close(self) -> None:
        """Drop the shards."""
        for holder in self.holders:
            holder.forget()

    async def _ask_one(self, holder: Holder, make_question: Callable[[Holder], Question]) -> object:
        async with holder.turn:
            while True:
                question = None
                try:
                    future = await self._open(holder)
                    question = make_question(holder)
                    self.tally.sent += n_bytes(question)
                    answer = await self._call(holder, future.key, "ask", question)
                except _LostWorker:
                    self._lost(holder)
                except BaseException:
                    holder.mark_unknown(question)
                    raise
                else:
                    self.tally.received += n_bytes(answer)
                    self.tally.n_questions += 1
                    holder.n_losses = 0
                    return answer

    def _lost(self, holder: Holder) -> None:
        holder.forget()
        holder.n_losses += 1
        self.tally.n_lost += 1
        if holder.n_losses > MAX_LOSSES:
            address = self.client.scheduler.address
            raise WorkersLostError(KILLED.format(holder.number, holder.n_losses, address)) from None

    async def _open(self, holder: Holder) -> Future:
        """Return the actor of a shard; a shard without a worker is opened on the one with the smallest number of
        shards."""
        if holder.future is not None:
            return holder.future
        async with self._placement_lock:
            threads = await self._wait_for_workers()
            used = [other.address for other in self.holders if other is not holder]
            holder.address = address = min(sorted(threads), key=used.count)
        future = self.client.submit(
            Shard,
            threads[address],
            key=f"crfqn-shard-{holder.number}-{self.token}-{next(self._names)}",
            workers=[address],
            allow_other_workers=False,
            actor=True,
            pure=False,
        )
        # A paused worker does not start tasks.
        await self._answer_of(holder, future._state.wait(), WORKER_TIMEOUT)
        if future.status != "finished":
            raise _LostWorker
        await self._call(holder, future.key, "open", holder.make)
        holder.future = future
        return future

    async def _call(self, holder: Holder, key: object, method: str, argument: object) -> object:
        """Return the result of a method of a shard's actor; raises its exception, or _LostWorker."""
        from distributed.protocol import to_serialize

        rpc = self.client.rpc(holder.address)
        call = rpc.actor_execute(actor=key, function=method, args=[to_serialize(argument)], kwargs={})
        try:
            reply = await self._answer_of(holder, call)
        except (OSError, KeyError):  # not connected, or a new process at this address, without the actor
            raise _LostWorker from None
        if reply["status"] != "OK":
            # A worker closes its threads before its connections.
            if holder.address not in await self._threads():
                raise _LostWorker
            raise reply["exception"]
        return reply["result"]

    async def _answer_of(self, holder: Holder, answer: Awaitable[Reply], limit: float = np.inf) -> Reply:
        """Return an answer; _LostWorker if the worker disconnects or the answer takes more than `limit` seconds."""
        task, begun = asyncio.ensure_future(answer), time.monotonic()
        try:
            while not task.done():
                await asyncio.wait([task], timeout=CHECK_INTERVAL)
                is_late = time.monotonic() > begun + limit
                if not task.done() and (is_late or holder.address not in await self._threads()):
                    raise _LostWorker
            return task.result()
        finally:
            task.cancel()

    async def _threads(self) -> dict[str, int]:
        """Return the number of threads of each connected worker, by address."""
        try:
            threads: dict[str, int] = await asyncio.wait_for(self.client.scheduler.ncores(), WORKER_TIMEOUT)
        except (TimeoutError, OSError):
            raise WorkersLostError(NO_ANSWER.format(self.client)) from None
        self._seen |= threads
        return threads

    async def _wait_for_workers(self) -> dict[str, int]:
        """Wait for a connected worker; return the number of threads of each, by address."""
        begun = time.monotonic()
        while not (threads := await self._threads()):
            remaining = begun + self.worker_timeout - time.monotonic()
            if remaining <= 0:
                address = self.client.scheduler.address
                raise WorkersLostError(NO_WORKER.format(len(self._seen), self.worker_timeout, address))
            await asyncio.sleep(min(CHECK_INTERVAL, remaining))
        return threads


def run_tasks(
    client: Any,
    name: str,
    function: Callable[..., Any],
    arguments: Sequence[tuple[object, ...]],
    worker_timeout: float = WORKER_TIMEOUT,
) -> list[Any]:
    """Return the results of a function for each tuple of arguments, computed as tasks `name-0-...`, `name-1-...`;
    `worker_timeout` and errors as in `Workers`."""
    from distributed import KilledWorker

    token = uuid4().hex[:8]
    keys = [f"{name}-{number}-{token}" for number in range(len(arguments))]
    with while_connected(client):
        futures = [
            client.submit(function, *args, key=key, pure=False)
            for key, args in zip(keys, arguments, strict=True)
        ]
        seen: dict[str, int] = {}
        last_seen, address = time.monotonic(), client.scheduler.address
        while not all(future.done() for future in futures):
            time.sleep(POLL_INTERVAL)
            if threads := client.nthreads():
                last_seen = time.monotonic()
                seen |= threads
            elif time.monotonic() > last_seen + worker_timeout:
                raise WorkersLostError(NO_WORKER.format(len(seen), worker_timeout, address))
        try:
            return client.gather(futures)
        except KilledWorker as error:
            n_killed = error.allowed_failures + 1
            shard = keys.index(str(error.task))
            raise WorkersLostError(KILLED.format(shard, n_killed, address)) from error


@contextmanager
def while_connected(client: Client) -> Iterator[None]:
    """Raise WorkersLostError for any error if the client is not connected any more."""
    if client.status == "closed":  # its event loop may not answer
        raise WorkersLostError(CLOSED)
    try:
        yield
    except (Exception, asyncio.CancelledError) as error:
        if client.status == "running" or isinstance(error, WorkersLostError):
            raise
        raise WorkersLostError(CLOSED) from error


def connected(client: Any) -> Client:
    """Return the client; for the address of a scheduler, a client connected to it. InputError if that fails."""
    if not isinstance(client, str):
        check_client(client)
        return client
    from distributed import Client
    from distributed.comm.addressing import get_address_host_port

    try:
        # Check the address first: a client with an invalid address never returns from closing.
        get_address_host_port(client)
        return Client(client, set_as_default=False, timeout=CONNECT_TIMEOUT)
    except (OSError, ValueError) as error:
        raise InputError(f"dask_client: there is no scheduler at {client!r}: {error}") from error


def n_bytes(message: Any) -> int:
    """Return the approximate bytes of a message: those of its arrays, and 8 for any other value."""
    if isinstance(message, np.ndarray):
        return message.nbytes
    if hasattr(message, "indptr"):  # a sparse matrix
        return n_bytes((message.indptr, message.indices, message.data))
    return sum(map(n_bytes, message)) if isinstance(message, (tuple, list)) else 8


def check_client(client: Any) -> None:
    """Raise InputError for anything but a connected, synchronous client of dask.distributed."""
    if not all(hasattr(client, name) for name in ("submit", "scheduler", "sync", "rpc")):
        raise InputError(
            "dask_client: expected a dask.distributed.Client or the address of a scheduler, "
            f"got {type(client).__name__}"
        )
    if client.status != "running":
        raise InputError(f"dask_client: expected one that is connected, got one that is {client.status}")
    if client._asynchronous:
        raise InputError("dask_client: expected a synchronous one, got one of asynchronous=True")
