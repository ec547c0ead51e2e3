"""Processes of a service: a parent opens the model and handles signals; forked workers answer requests.

Workers share the memory of the model, which they only read. A new model is served by new workers at the same socket;
the old ones answer the requests on their connections, with `Connection: close`, until the last connection is closed.
So every request is answered by one model, and no request is lost.
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
from crfqn.service.application import COUNTS_PER_PROCESS, Counters, RequestLimits, create_app
from crfqn.service.labelling import LabelService

HANDLED_SIGNALS = signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD
MAX_QUEUED = 2048  # connections that are not accepted yet; the system refuses further ones
MIN_PROCESS_SECONDS = (
    1.0  # of a worker; one that ends earlier is not replaced, as its replacement would end, too
)
MAX_IDLE_SECONDS = 5  # of a connection without further requests, which is then closed
TICKS_PER_SECOND = 10  # of uvicorn's event loop
WARNING_INTERVAL = 60.0  # seconds between two warnings about the limit of descriptors
DESCRIPTOR_ERRORS = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


class Listener(socket.socket):
    """A socket with a queue of fixed length; asyncio would shorten it to the connections that it accepts at a time."""

    def listen(self, backlog: int = MAX_QUEUED) -> None:
        """Listen with a queue of MAX_QUEUED connections."""
        super().listen(MAX_QUEUED)


class Server(uvicorn.Server):
    """A server that SIGTERM ends after the pending requests, and SIGHUP after all connections are closed.

    Inactive connections are closed. Their time is counted in ticks of the event loop, so that a busy process does not
    close connections because of requests that it has not read yet.
    """

    parent: int
    timeout: float
    drained_since: float | None = None
    ends_in: int | None = None  # ticks
    warned_at = -WARNING_INTERVAL

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.still: dict[
            Any, tuple[Any, int]
        ] = {}  # connection: its state, and the number of ticks in this state

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to accept connections."""
        asyncio.get_running_loop().set_exception_handler(self._failed)
        await super().startup(sockets)

    def _failed(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Warn, once per WARNING_INTERVAL, that the limit of descriptors is reached; asyncio retries after a second."""
        if getattr(context.get("exception"), "errno", None) not in DESCRIPTOR_ERRORS:
            loop.default_exception_handler(context)
        elif monotonic() > self.warned_at + WARNING_INTERVAL:
            self.warned_at = monotonic()
            logging.getLogger("uvicorn.error").warning(
                "process %d has %d connections and no descriptor for another one (ulimit -n): others wait",
                os.getpid(),
                len(self.server_state.connections),
            )

    def _close_still(self) -> None:
        """Close connections without a complete request for too long, and those whose client does not read an answer.

        The application limits the time of requests that are complete.
        """
        still: dict[Any, tuple[Any, int]] = {}
        connections: list[Any] = list(self.server_state.connections)
        for connection in connections:
            cycle, n_unsent = connection.cycle, connection.transport.get_write_buffer_size()
            if cycle is not None and not cycle.response_complete and not n_unsent:
                continue
            state, n_ticks = self.still.get(connection, (None, 0))
            n_ticks = n_ticks + 1 if state == (cycle, n_unsent) else 0
            if n_ticks > TICKS_PER_SECOND * (
                self.timeout if cycle is None else self.timeout + MAX_IDLE_SECONDS
            ):
                connection.transport.abort()
            else:
                still[connection] = (cycle, n_unsent), n_ticks
        self.still = still

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Unblock the signals that were blocked before the fork; the parent handles Ctrl-C."""
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.signal(signal.SIGTERM, self._end)
        signal.signal(signal.SIGHUP, self._drain)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, HANDLED_SIGNALS)
        yield

    def _drain(self, number: int, frame: object) -> None:
        self.drained_since = self.drained_since or monotonic()

    def _end(self, number: int, frame: object) -> None:
        """Answer the pending requests, with `Connection: close`, then end."""
        self._drain(number, frame)
        self.ends_in = 2

    async def on_tick(self, counter: int) -> bool:
        """Return, at each tick, whether to end; a worker also ends if its parent has ended."""
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
        limit = MAX_IDLE_SECONDS + (self.config.timeout_graceful_shutdown or 0)
        # A second for connections that were accepted when the signal came.
        is_over = seconds > limit or (seconds > 1 and not self.server_state.connections)
        return await super().on_tick(counter) or is_over


class Processes:
    """Starts, replaces and ends the workers; `say` prints messages for the user."""

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
        # Rows of this generation of workers and of the previous one, which may answer at the same time.
        shared = mmap.mmap(-1, 2 * n_workers * COUNTS_PER_PROCESS * 8)
        self.counts = np.frombuffer(shared, np.float64).reshape(2, n_workers, COUNTS_PER_PROCESS)
        self.generation, self.is_asked = 0, False
        self.running: dict[int, tuple[int, float]] = {}  # process: its row of counts, and its start time
        self.leaving: set[int] = set()

    def run(self) -> None:
        """Serve until SIGTERM or SIGINT; InputError if a worker ends within MIN_PROCESS_SECONDS."""
        # sigwait does not receive an ignored signal.
        signal.signal(signal.SIGCHLD, lambda number, frame: None)
        signal.pthread_sigmask(signal.SIG_BLOCK, HANDLED_SIGNALS)
        try:
            self._start_all()
            while (number := signal.sigwait(HANDLED_SIGNALS)) not in (signal.SIGTERM, signal.SIGINT):
                self.is_asked |= number == signal.SIGHUP
                self._reap()
                if self.is_asked and not self.leaving:  # otherwise after the previous workers have ended
                    self._renew()
        finally:  # each worker ends after its pending requests
            for process in (processes := {*self.running, *self.leaving}):
                os.kill(process, signal.SIGTERM)
            for process in processes:
                os.waitpid(process, 0)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, HANDLED_SIGNALS)

    def _start_all(self) -> None:
        gc.freeze()  # the garbage collector would write to shared memory
        for row in range(self.counts.shape[1]):
            self._start(row)

    def _start(self, row: int) -> None:
        process = os.fork()
        if process == 0:
            self._serve(row)
        self.running[process] = row, monotonic()

    def _serve(self, row: int) -> None:
        """Answer requests in a worker; ends its process."""
        code = 1
        try:
            # The log has no warnings about clients' items.
            warnings.simplefilter("ignore", UnknownFeaturesWarning)
            counters = Counters(
                self.counts.reshape(-1, COUNTS_PER_PROCESS), self.generation % 2 * self.counts.shape[1] + row
            )
            config = uvicorn.Config(
                create_app(self.service, self.limits, counters),
                log_level="warning",
                access_log=False,
                server_header=False,
                lifespan="off",
                ws="none",
                loop="asyncio",
                backlog=1,  # connections accepted at a time; asyncio logs an error for each that lacks a descriptor
                timeout_keep_alive=MAX_IDLE_SECONDS,
                timeout_graceful_shutdown=int(self.limits.timeout) + 1,
            )
            server = Server(config)
            server.parent, server.timeout = self.process, self.limits.timeout
            server.run([self.listener])
            code = 0
        except Exception:
            traceback.print_exc()
        finally:
            os._exit(code)  # without the parent's exit handlers

    def _reap(self) -> None:
        """Collect ended workers, and replace those that ended unexpectedly."""
        while self.running or self.leaving:
            process, status = os.waitpid(-1, os.WNOHANG)
            if process == 0:
                return
            self.leaving.discard(process)
            row, begin = self.running.pop(process, (None, 0.0))
            if row is None:
                continue
            reason = f"process {process} has ended: {os.waitstatus_to_exitcode(status)}"
            if monotonic() - begin < MIN_PROCESS_SECONDS:
                raise InputError(f"{reason}, as soon as it began")
            self.say(f"{reason}; another one replaces it")
            self._start(row)

    def _renew(self) -> None:
        """Open the model file again and start new workers; if the file is invalid, the old model stays."""
        self.is_asked = False
        try:
            self.service = LabelService(self.path)
        except CrfqnError as error:
            self.say(f"crfqn: {error}; the previous model is kept")
            return
        self.leaving, self.running = {*self.running}, {}
        self.generation += 1
        self._start_all()
        for process in self.leaving:
            os.kill(process, signal.SIGHUP)
        self.say(f"{self.path}: opened anew")


def listen(host: str, port: int) -> socket.socket:
    """Return a listening socket; InputError if the address cannot be used."""
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listener = Listener(
            fileno=socket.create_server((host, port), family=family, backlog=MAX_QUEUED).detach()
        )
        # Inherited by connections. Without it, Nagle's algorithm delays the body of an answer by 40 ms.
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return listener
    except (OSError, OverflowError, UnicodeError) as error:
        reason = str(getattr(error, "strerror", None) or error).partition(" (while ")[0]
        raise InputError(f"cannot listen at {host}, port {port}: {reason}") from error
