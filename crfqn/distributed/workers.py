"""The shards on the workers of a Dask cluster, as the client sees them: who has which, what was sent, who was lost.

Questions go to the workers directly and not through the scheduler, which would keep every array in its graph. A shard
whose worker is gone is read again by another one, or by the worker that takes its place; what points lived there are
made anew from their weights when somebody asks, and as a shard computes its scores from all weights, always, the
numbers are the same to the bit. Sums run over the shards in their order, whoever has them.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from typing import Any
from uuid import uuid4

import numpy as np

from crfqn.arrays import NO_WEIGHTS, SparseWeights
from crfqn.distributed.shard import Make, Question, Shard
from crfqn.errors import CrfqnError, InputError
from crfqn.time_limit import check_time

GLANCE = 1.0  # seconds between two looks whether the worker that should answer is still there
PATIENCE = 60.0  # seconds to wait for a worker where there is none, by default, and for the scheduler
CONNECTING = 10.0  # seconds to wait for the scheduler at first
MOMENT = 0.05  # seconds between two looks whether tasks are done
MOST_LOSSES = 3  # workers in a row that a shard may lose without answering once

AGAIN = "call fit again; with checkpoint= (--checkpoint FOLDER) it goes on where it was"
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
    """The worker that was asked is gone."""


@dataclass
class Tally:
    """What has crossed the wire: bytes to the workers and back, and questions, each of them to one shard."""

    sent: int = 0
    received: int = 0
    n_questions: int = 0
    n_lost: int = 0  # workers, by shard

    @property
    def total(self) -> int:
        """Bytes in both directions."""
        return self.sent + self.received


@dataclass(eq=False)
class Holder:
    """A shard: how it is read, where it is, and what it knows: points, the last weights and coordinates."""

    make: Make
    number: int
    address: str | None = None
    future: Any = None
    known: set[int] = field(default_factory=set)
    last: SparseWeights | None = NO_WEIGHTS
    coords: Any = None
    released: deque[Any] = field(default_factory=deque)
    n_losses: int = 0
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)

    def forget(self) -> None:
        """Begin anew: the worker is gone, and with it all that it knew."""
        self.address = self.future = self.coords = None
        self.known, self.last, self.released = set(), NO_WEIGHTS, deque()

    def doubt(self, question: Question | None) -> None:
        """Rely on nothing: a question may have arrived, or not."""
        self.known, self.last, self.coords = set(), None, None
        self.released.extend(() if question is None else question.released)


class Workers:
    """The holders of shards, and how to ask them.

    client : distributed.Client, connected, synchronous
    makes : how the objective of each shard is made, called on its worker; picklable
    worker_timeout : seconds to wait for a worker where none is left

    Raises
    ------
    InputError
        For anything but a client, and no shards.
    WorkersLostError
        Within `worker_timeout` seconds no worker is there.
    """

    def __init__(self, client: Any, makes: Sequence[Make], worker_timeout: float = PATIENCE) -> None:
        check_client(client)
        if not makes:
            raise InputError("expected at least one shard, got none")
        self.client, self.worker_timeout, self.token = client, worker_timeout, uuid4().hex[:8]
        self.holders = [Holder(make, number) for number, make in enumerate(makes)]
        self.tally, self.numbers, self._names = Tally(), count(), count()
        self._seen: dict[str, int] = {}
        self._placing = asyncio.Lock()

    def ask(self, questions: Sequence[tuple[Holder, Callable[[Holder], Question]]]) -> list[Any]:
        """Ask holders, all at once, what they are asked in the light of what they know; returns their answers."""

        async def together() -> list[Any]:
            tasks = [asyncio.ensure_future(self._ask_one(*each)) for each in questions]
            try:
                return await asyncio.gather(*tasks)
            finally:
                for task in tasks:
                    task.cancel()

        check_time()
        with while_connected(self.client):
            return self.client.sync(together)

    def release(self, number: Any) -> None:
        """Let all shards drop a point or a sample, with their next question."""
        for holder in self.holders:
            holder.released.append(number)

    def close(self) -> None:
        """Drop the shards."""
        for holder in self.holders:
            holder.forget()

    async def _ask_one(self, holder: Holder, make_question: Callable[[Holder], Question]) -> Any:
        async with holder.turn:
            while True:
                question = None
                try:
                    await self._open(holder)
                    question = make_question(holder)
                    self.tally.sent += n_bytes(question)
                    answer = await self._call(holder, holder.future.key, "ask", question)
                except _LostWorker:
                    self._lost(holder)
                except BaseException:
                    holder.doubt(question)
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
        if holder.n_losses > MOST_LOSSES:
            address = self.client.scheduler.address
            raise WorkersLostError(KILLED.format(holder.number, holder.n_losses, address)) from None

    async def _open(self, holder: Holder) -> None:
        """Give a shard to the worker that has fewest, unless it has one."""
        if holder.future is not None:
            return
        async with self._placing:
            threads = await self._present()
            held = [other.address for other in self.holders if other is not holder]
            holder.address = address = min(sorted(threads), key=held.count)
        future = self.client.submit(
            Shard,
            threads[address],
            key=f"crfqn-shard-{holder.number}-{self.token}-{next(self._names)}",
            workers=[address],
            allow_other_workers=False,
            actor=True,
            pure=False,
        )
        await self._watched(holder, future._state.wait(), PATIENCE)  # one that is paused begins nothing
        if future.status != "finished":
            raise _LostWorker
        await self._call(holder, future.key, "open", holder.make)
        holder.future = future

    async def _call(self, holder: Holder, key: str, method: str, argument: Any) -> Any:
        """Call a method of a shard's actor; raises what it raises, or _LostWorker."""
        from distributed.protocol import to_serialize

        rpc = self.client.rpc(holder.address)
        call = rpc.actor_execute(actor=key, function=method, args=[to_serialize(argument)], kwargs={})
        try:
            reply = await self._watched(holder, call)
        except (
            OSError,
            KeyError,
        ):  # no connection, or no such actor: a new process has the old one's address
            raise _LostWorker from None
        if reply["status"] != "OK":
            if holder.address not in await self._threads():  # its threads are closed before its connections
                raise _LostWorker
            raise reply["exception"]
        return reply["result"]

    async def _watched(self, holder: Holder, answer: Awaitable[Any], limit: float = np.inf) -> Any:
        """Wait for an answer as long as the worker is there, and for so many seconds."""
        task, begun = asyncio.ensure_future(answer), time.monotonic()
        try:
            while not task.done():
                await asyncio.wait([task], timeout=GLANCE)
                is_late = time.monotonic() > begun + limit
                if not task.done() and (is_late or holder.address not in await self._threads()):
                    raise _LostWorker
            return task.result()
        finally:
            task.cancel()

    async def _threads(self) -> dict[str, int]:
        """Return the workers that are there, by address, and their threads."""
        try:
            threads: dict[str, int] = await asyncio.wait_for(self.client.scheduler.ncores(), PATIENCE)
        except (TimeoutError, OSError):
            raise WorkersLostError(NO_ANSWER.format(self.client)) from None
        self._seen |= threads
        return threads

    async def _present(self) -> dict[str, int]:
        """Return the workers as soon as there is one."""
        begun = time.monotonic()
        while not (threads := await self._threads()):
            remaining = begun + self.worker_timeout - time.monotonic()
            if remaining <= 0:
                address = self.client.scheduler.address
                raise WorkersLostError(NO_WORKER.format(len(self._seen), self.worker_timeout, address))
            await asyncio.sleep(min(GLANCE, remaining))
        return threads


def run_tasks(
    client: Any,
    name: str,
    function: Callable[..., Any],
    arguments: Sequence[tuple[Any, ...]],
    worker_timeout: float = PATIENCE,
) -> list[Any]:
    """Return what a function gives of each tuple of arguments, computed as tasks `name-0-...`, `name-1-...`; wait :
    as of `Workers`."""
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
            time.sleep(MOMENT)
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
def while_connected(client: Any) -> Iterator[None]:
    """Raise WorkersLostError for whatever error comes of a client that is not connected any more."""
    if client.status == "closed":  # its event loop may answer no more
        raise WorkersLostError(CLOSED)
    try:
        yield
    except (Exception, asyncio.CancelledError) as error:
        if client.status == "running" or isinstance(error, WorkersLostError):
            raise
        raise WorkersLostError(CLOSED) from error


def connected(client: Any) -> Any:
    """Return a client, connected to a scheduler where its address is given; InputError where that fails."""
    if not isinstance(client, str):
        check_client(client)
        return client
    from distributed import Client
    from distributed.comm.addressing import get_address_host_port

    try:
        get_address_host_port(client)  # a client that fails at that itself hangs at its end
        return Client(client, set_as_default=False, timeout=CONNECTING)
    except (OSError, ValueError) as error:
        raise InputError(f"dask_client: there is no scheduler at {client!r}: {error}") from error


def n_bytes(message: Any) -> int:
    """Return about how many bytes a message takes on the wire: its arrays, and 8 for every other thing."""
    if isinstance(message, np.ndarray):
        return message.nbytes
    if hasattr(message, "indptr"):  # a sparse matrix
        return n_bytes((message.indptr, message.indices, message.data))
    return sum(map(n_bytes, message)) if isinstance(message, (tuple, list)) else 8


def check_client(client: Any) -> None:
    """Refuse what is no connected, synchronous client of dask.distributed."""
    if not all(hasattr(client, name) for name in ("submit", "scheduler", "sync", "rpc")):
        raise InputError(
            "dask_client: expected a dask.distributed.Client or the address of a scheduler, "
            f"got {type(client).__name__}"
        )
    if client.status != "running":
        raise InputError(f"dask_client: expected one that is connected, got one that is {client.status}")
    if client._asynchronous:
        raise InputError("dask_client: expected a synchronous one, got one of asynchronous=True")
