"""Processes of a service: one that opens the model and waits for signals, and those forked from it that answer.

Forked processes share the memory of the model as long as they only read it. A new model comes by new processes: they
listen at the same socket, and those before answer what has come to them, with `Connection: close`, until their last
connection is closed. So no request meets half a model, and none is lost.
"""

from __future__ import annotations

import asyncio
import errno
import gc
import logging
import mmap
import os
import signal
import socket
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic
from typing import Any

import numpy as np
import uvicorn

from crfqn.errors import CrfqnError, InputError, UnknownFeaturesWarning
from crfqn.service.application import COUNTS, Counters, RequestLimits, create_app
from crfqn.service.labelling import LabelService

SIGNALS = signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD
BACKLOG = 2048  # connections that wait to be accepted
LEAST_SECONDS = 1.0  # of a process; one that ends sooner would end again and again
IDLE = 5  # seconds after which a connection without further requests is closed
TICKS = 10  # a second
SILENCE = 60.0  # seconds between two lines about the limit of descriptors
NO_DESCRIPTOR = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


class Listener(socket.socket):
    """A socket with a queue of fixed length, which asyncio would cut to the connections that it accepts at a time."""

    def listen(self, backlog: int = BACKLOG) -> None:
        """Listen with a queue of BACKLOG connections."""
        super().listen(BACKLOG)


class Server(uvicorn.Server):
    """A server that SIGTERM ends when what has come is answered, and SIGHUP when all connections are closed.

    Connections on which nothing moves are closed. Time is counted in ticks of the event loop: a process that is busy
    for long closes nobody for what it has not read meanwhile.
    """

    parent: int
    timeout: float
    drained_since: float | None = None
    ends_in: int | None = None  # ticks
    warned_at = -SILENCE

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.still: dict[Any, tuple[Any, int]] = {}  # connection: its state, and for how many ticks

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to accept connections."""
        asyncio.get_running_loop().set_exception_handler(self._failed)
        await super().startup(sockets)

    def _failed(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Warn, once in SILENCE seconds, that the limit of descriptors is reached; asyncio tries again in a second."""
        if getattr(context.get("exception"), "errno", None) not in NO_DESCRIPTOR:
            loop.default_exception_handler(context)
        elif monotonic() > self.warned_at + SILENCE:
            self.warned_at = monotonic()
            logging.getLogger("uvicorn.error").warning(
                "process %d has %d connections and no descriptor for another one (ulimit -n): others wait",
                os.getpid(),
                len(self.server_state.connections),
            )

    def _close_still(self) -> None:
        """Close connections that have been without a whole request for too long, or whose client takes no answer.
        Requests that have begun have the application's limits."""
        still: dict[Any, tuple[Any, int]] = {}
        connections: list[Any] = list(self.server_state.connections)
        for connection in connections:
            cycle, n_unsent = connection.cycle, connection.transport.get_write_buffer_size()
            if cycle is not None and not cycle.response_complete and not n_unsent:
                continue
            state, n_ticks = self.still.get(connection, (None, 0))
            n_ticks = n_ticks + 1 if state == (cycle, n_unsent) else 0
            if n_ticks > TICKS * (self.timeout if cycle is None else self.timeout + IDLE):
                connection.transport.abort()
            else:
                still[connection] = (cycle, n_unsent), n_ticks
        self.still = still

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Let signals in, which have been blocked since before the fork; Ctrl-C is for the parent to answer."""
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.signal(signal.SIGTERM, self._end)
        signal.signal(signal.SIGHUP, self._drain)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
        yield

    def _drain(self, number: int, frame: object) -> None:
        self.drained_since = self.drained_since or monotonic()

    def _end(self, number: int, frame: object) -> None:
        """Read what has come, and announce with each answer that its connection closes; then end."""
        self._drain(number, frame)
        self.ends_in = 2

    async def on_tick(self, counter: int) -> bool:
        """Return, ten times a second, whether to end: also where the parent is gone."""
        self.should_exit |= os.getppid() != self.parent
        self._close_still()
        if self.drained_since is None:
            return await super().on_tick(counter)
        if any(server.is_serving() for server in self.servers):
            for server in self.servers:
                server.close()
            closing = (b"connection", b"close")
            self.config.encoded_headers.append(closing)
            self.server_state.default_headers = [*self.server_state.default_headers, closing]
        if self.ends_in is not None:
            self.ends_in -= 1
            self.should_exit |= self.ends_in < 0
        seconds = monotonic() - self.drained_since
        limit = IDLE + (self.config.timeout_graceful_shutdown or 0)
        # A second for connections that were accepted when the signal came.
        is_over = seconds > limit or (seconds > 1 and not self.server_state.connections)
        return await super().on_tick(counter) or is_over


class Processes:
    """The processes, from the first to the last; `say` takes messages for the person who started them."""

    def __init__(
        self,
        path: Path,
        listener: socket.socket,
        n_workers: int,
        limits: RequestLimits,
        say: Callable[[str], None],
    ) -> None:
        self.path, self.listener, self.limits, self.say = path, listener, limits, say
        self.service, self.process = LabelService(path), os.getpid()
        # Rows of this generation of processes and of the one before, which may answer at the same time.
        shared = mmap.mmap(-1, 2 * n_workers * COUNTS * 8)
        self.counts = np.frombuffer(shared, np.float64).reshape(2, n_workers, COUNTS)
        self.generation, self.is_asked = 0, False
        self.running: dict[int, tuple[int, float]] = {}  # process: its row, and when it began
        self.leaving: set[int] = set()

    def run(self) -> None:
        """Serve until SIGTERM or SIGINT; InputError where processes end as soon as they begin."""
        signal.signal(signal.SIGCHLD, lambda number, frame: None)  # ignored ones may not be waited for
        signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
        try:
            self._start_all()
            while (number := signal.sigwait(SIGNALS)) not in (signal.SIGTERM, signal.SIGINT):
                self.is_asked |= number == signal.SIGHUP
                self._reap()
                if self.is_asked and not self.leaving:  # else when those before have left
                    self._renew()
        finally:  # each ends when it has answered what has come to it
            for process in (processes := {*self.running, *self.leaving}):
                os.kill(process, signal.SIGTERM)
            for process in processes:
                os.waitpid(process, 0)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)

    def _start_all(self) -> None:
        gc.freeze()  # the collector would write to what is shared
        for row in range(self.counts.shape[1]):
            self._start(row)

    def _start(self, row: int) -> None:
        process = os.fork()
        if process == 0:
            self._serve(row)
        self.running[process] = row, monotonic()

    def _serve(self, row: int) -> None:
        """Answer requests, in a process of its own, and end it."""
        code = 1
        try:
            warnings.simplefilter("ignore", UnknownFeaturesWarning)  # clients' words are not this log's
            counters = Counters(
                self.counts.reshape(-1, COUNTS), self.generation % 2 * self.counts.shape[1] + row
            )
            config = uvicorn.Config(
                create_app(self.service, self.limits, counters),
                log_level="warning",
                access_log=False,
                server_header=False,
                lifespan="off",
                ws="none",
                loop="asyncio",
                backlog=1,  # connections accepted at a time; more would be tried where there is no descriptor for one
                timeout_keep_alive=IDLE,
                timeout_graceful_shutdown=int(self.limits.timeout) + 1,
            )
            server = Server(config)
            server.parent, server.timeout = self.process, self.limits.timeout
            server.run([self.listener])
            code = 0
        except Exception:
            traceback.print_exc()
        finally:
            os._exit(code)  # nothing of the parent's is for this process to end

    def _reap(self) -> None:
        """Collect processes that have ended, and replace those that should not have ended."""
        while self.running or self.leaving:
            process, status = os.waitpid(-1, os.WNOHANG)
            if process == 0:
                return
            self.leaving.discard(process)
            row, begin = self.running.pop(process, (None, 0.0))
            if row is None:
                continue
            reason = f"process {process} has ended: {os.waitstatus_to_exitcode(status)}"
            if monotonic() - begin < LEAST_SECONDS:
                raise InputError(f"{reason}, as soon as it began")
            self.say(f"{reason}; another one takes its place")
            self._start(row)

    def _renew(self) -> None:
        """Open the model file again, and have new processes take over; where it is none, all stays as it is."""
        self.is_asked = False
        try:
            self.service = LabelService(self.path)
        except CrfqnError as error:
            self.say(f"crfqn: {error}; the model before is kept")
            return
        self.leaving, self.running = {*self.running}, {}
        self.generation += 1
        self._start_all()
        for process in self.leaving:
            os.kill(process, signal.SIGHUP)
        self.say(f"{self.path}: opened anew")


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that listens; InputError where it cannot."""
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listener = Listener(
            fileno=socket.create_server((host, port), family=family, backlog=BACKLOG).detach()
        )
        # Connections inherit it. The body of an answer would wait 40 ms for the client to confirm the head.
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return listener
    except (OSError, OverflowError, UnicodeError) as error:
        reason = str(getattr(error, "strerror", None) or error).partition(" (while ")[0]
        raise InputError(f"cannot listen at {host}, port {port}: {reason}") from error
