"""Connections on which nothing moves: closed in time, and at the limit of descriptors no reason to spin."""

import asyncio
import json
import os
import socket
import threading
import time
from contextlib import ExitStack, closing

import pytest
from served import Process, saved

from crfqn import Templates

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are forked")
HEAD = b"POST /label HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000\r\n"


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    path = tmp_path_factory.mktemp("connections") / "words.crfqn"
    X = Templates(windows="w[0]", columns=("w",)).fit_transform([[{"w": "Ann"}, {"w": "sees"}]] * 3)
    saved(path, X, [["N", "V"]] * 3)
    return path


def opened(service, stack):
    connection = stack.enter_context(socket.create_connection(("127.0.0.1", service.port), timeout=60))
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


def ended(connection):
    """What comes until the other side closes; an error after a minute."""
    content = b""
    try:
        while part := connection.recv(1 << 16):
            content += part
    except ConnectionResetError:
        pass
    return content


def trickle(connection, pieces):
    """Send byte by byte until the other side answers or closes; return what comes, None where it never does."""
    connection.settimeout(0.02)
    for piece in pieces:
        try:
            connection.sendall(piece)
            content = connection.recv(1 << 16)
        except TimeoutError:
            continue
        except (ConnectionResetError, BrokenPipeError):
            return b""
        return content
    return None


def test_more_idle_connections_than_descriptors(model):
    with Process(model, "--timeout", "0.3", descriptors=48) as service, ExitStack() as stack:
        idle = [opened(service, stack) for _ in range(120)]
        asked = stack.enter_context(closing(service.connect()))
        asked.request("GET", "/health")
        assert json.loads(asked.getresponse().read()) == {"status": "ok"}
        assert [ended(connection) for connection in idle] == [b""] * len(idle)
        another = stack.enter_context(closing(service.connect()))
        assert service.label(another, "Ann sees") == ["N", "V"]
        service.terminate()
        said = service.stderr.read()
        assert "no descriptor for another one (ulimit -n): others wait" in said
        assert len(said.splitlines()) < 5
        assert service.wait(30) == 0


def test_slow_senders(model):
    """A second for a head and for a body, whatever comes of them meanwhile."""
    with Process(model, "--timeout", "1") as service, ExitStack() as stack:
        byte_by_byte = [bytes([byte]) for byte in b"GET /health HTTP/1.1\r\nHeader: " + b"x" * 2000]
        assert trickle(opened(service, stack), byte_by_byte) == b""
        connection = opened(service, stack)
        answer = trickle(connection, [HEAD + b"\r\n", *[b" "] * 2000])
        assert answer.startswith(b"HTTP/1.1 408 ")
        connection.settimeout(60)
        assert b"expected the whole body within 1 seconds" in answer + ended(connection)


def test_a_body_that_is_too_large_is_answered(model):
    """Also where its client sends all of it before it reads, as most do; `curl` asks first."""
    with Process(model, "--max-bytes", "1000000") as service, ExitStack() as stack:
        connection = stack.enter_context(closing(service.connect()))
        connection.request("POST", "/label", b" " * 7_000_000)
        response = connection.getresponse()
        assert response.status == 413
        assert json.loads(response.read()) == {"error": "expected a body of at most 1,000,000 bytes"}
        asking = opened(service, stack)
        asking.sendall(HEAD.replace(b"1000000", b"1000001") + b"Expect: 100-continue\r\n\r\n")
        assert ended(asking).startswith(b"HTTP/1.1 413 ")


def test_no_request_is_lost_at_the_end(model):
    """Clients send the next request as soon as they have an answer, until one says that the connection closes."""
    ends, answered = [], []

    def ask(connection):
        try:
            while True:
                connection.request("POST", "/label", json.dumps({"item": "Ann sees"}))
                response = connection.getresponse()
                assert json.loads(response.read()) == {
                    "tokens": ["Ann", "sees"],
                    "start": [0, 4],
                    "end": [3, 8],
                    "labels": ["N", "V"],
                }
                answered.append(connection)
                if response.getheader("Connection") == "close":
                    ends.append("announced")
                    return
        except Exception as error:
            ends.append(repr(error))

    with Process(model) as service, ExitStack() as stack:
        connections = [stack.enter_context(closing(service.connect())) for _ in range(40)]
        threads = [threading.Thread(target=ask, args=(connection,)) for connection in connections]
        for thread in threads:
            thread.start()
        while len({*answered}) < len(connections):
            assert not ends
            time.sleep(0.01)
        service.terminate()
        for thread in threads:
            thread.join()
        assert service.wait(30) == 0
    assert ends == ["announced"] * len(connections)


class Transport:
    """A connection's transport that has so many bytes to send, and counts its end."""

    def __init__(self, n_unsent):
        self.n_unsent, self.n_aborts = n_unsent, 0

    def get_write_buffer_size(self):
        return self.n_unsent

    def abort(self):
        self.n_aborts += 1


class Connection:
    """A connection of which a request is answered, or is not, or that has none yet."""

    def __init__(self, is_answered=None, n_unsent=0):
        self.cycle = None if is_answered is None else self
        self.response_complete, self.transport = is_answered, Transport(n_unsent)


def test_who_is_closed_when():
    import uvicorn

    from crfqn.service.workers import MAX_IDLE_SECONDS, TICKS_PER_SECOND, Server

    server = Server(uvicorn.Config(lambda: None, lifespan="off"))
    server.parent, server.timeout = os.getppid(), 2.0
    silent, answered, labelled = Connection(), Connection(True), Connection(False)
    deaf, deaf_to_the_end, slow = Connection(False, 10**6), Connection(True, 10**6), Connection(False, 10**6)
    server.server_state.connections = {silent, answered, labelled, deaf, deaf_to_the_end, slow}
    closed_at = {}
    for tick in range(TICKS_PER_SECOND * (2 + MAX_IDLE_SECONDS) + 5):
        slow.transport.n_unsent -= 1  # somebody reads
        assert not asyncio.run(server.on_tick(tick))
        for connection in [one for one in server.server_state.connections if one.transport.n_aborts]:
            closed_at[connection] = tick
            server.server_state.connections.remove(connection)
    later = TICKS_PER_SECOND * (2 + MAX_IDLE_SECONDS) + 1
    assert closed_at == {
        silent: TICKS_PER_SECOND * 2 + 1,
        answered: later,
        deaf: later,
        deaf_to_the_end: later,
    }
