"""Connections that say nothing, too much or too little, on a real server of this machine."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass

import httpx2
import pytest
import uvicorn
from fastapi import FastAPI, Request
from fastapi.responses import StreamingResponse

from service.api.http.connections import Limits, most_connections, protocol_with
from service.api.http.middleware import Guard

PATIENCE = 20
"""Seconds after which a test gives up."""

QUICK = Limits(connections=50, head_seconds=1, linger_seconds=1)
HELD = Limits(connections=8, head_seconds=PATIENCE, linger_seconds=PATIENCE)
HEAD = b"POST /length HTTP/1.1\r\nhost: localhost\r\n"


def routes() -> FastAPI:
    """An app that answers as the API does."""
    app = FastAPI()

    @app.get("/")
    async def hello() -> str:
        return "hello"

    @app.post("/length")
    async def length(request: Request) -> int:
        return sum([len(piece) async for piece in request.stream()])

    @app.post("/unread")
    async def unread() -> str:
        return "not read"

    @app.get("/events")
    async def events() -> StreamingResponse:
        async def spoken():
            for number in range(3):
                await asyncio.sleep(1.5 * QUICK.head_seconds)
                yield f"data: {number}\n\n"

        return StreamingResponse(spoken(), media_type="text/event-stream")

    return app


@dataclass
class Server:
    """A running server."""

    port: int

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}"

    def connect(self, said=b""):
        """A connection on which so much was said."""
        made = socket.create_connection(("127.0.0.1", self.port), PATIENCE)
        made.sendall(said)
        return made


@contextmanager
def served(app, limits: Limits) -> Iterator[Server]:
    """The app on a port of this machine, in a thread that ends with the test."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        config = uvicorn.Config(
            app,
            log_config=None,
            lifespan="off",
            ws="none",
            http=protocol_with(limits),
            timeout_graceful_shutdown=1,
        )
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, args=[[listener]])
        thread.start()
        try:
            yield Server(port)
        finally:
            server.should_exit = True
            thread.join()


@pytest.fixture(scope="module")
def quick():
    """A server whose deadlines are over at once."""
    guarded = Guard(routes(), loopback_only=True, patience=(1, 1))
    with served(guarded, QUICK) as server:
        yield server


@pytest.fixture(scope="module")
def held():
    """A server with few places and no deadlines."""
    with served(routes(), HELD) as server:
        yield server


def answer_of(connection) -> bytes:
    """All that comes until the other side closes."""
    heard = b""
    with suppress(ConnectionResetError):
        while piece := connection.recv(65_536):
            heard += piece
    return heard


def dribble(connection, piece=b"x") -> bytes:
    """Say a little again and again until the other side has had enough; answers what it said."""
    ended = threading.Event()

    def say():
        with suppress(OSError):
            while not ended.wait(0.02):
                connection.sendall(piece)

    thread = threading.Thread(target=say)
    thread.start()
    try:
        return answer_of(connection)
    finally:
        ended.set()
        thread.join()


def test_a_connection_that_says_nothing_is_closed(quick):
    with quick.connect() as connection:
        assert answer_of(connection) == b""


@pytest.mark.parametrize("said", [b"G", b"GET / HT", HEAD, HEAD + b"x-long: "])
def test_a_head_that_does_not_come_to_its_end_is_given_up(quick, said):
    with quick.connect(said) as connection:
        assert answer_of(connection).startswith(b"HTTP/1.1 408 ")


def test_a_head_that_comes_a_byte_at_a_time_is_given_up(quick):
    with quick.connect(HEAD + b"x-long: ") as connection:
        assert dribble(connection).startswith(b"HTTP/1.1 408 ")


def test_the_next_head_of_a_connection_has_a_deadline_too(quick):
    with quick.connect(b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n") as connection:
        assert connection.recv(65_536).startswith(b"HTTP/1.1 200 ")
        connection.sendall(HEAD)
        assert b"HTTP/1.1 408 " in dribble(connection)


@pytest.mark.parametrize("beginning", [b"GET /?", HEAD + b"x-long: "])
def test_a_head_of_a_megabyte_is_refused_before_it_has_come(held, beginning):
    with held.connect(beginning) as connection:
        with suppress(ConnectionError):
            for _ in range(1_024):
                connection.sendall(b"x" * 1_024)
        assert answer_of(connection)[:13] in {b"HTTP/1.1 431 ", b""}


def test_a_head_that_comes_at_once_is_measured_as_well(held):
    headers = {f"x-{number}": "y" * 900 for number in range(80)}
    answer = httpx2.get(held.url, headers=headers)
    assert answer.status_code == 431
    assert answer.json()["type"] == "urn:tpu-steward:problem:head-too-large"
    assert answer.headers["connection"] == "close"
    assert httpx2.get(held.url, headers={"x-one": "y" * 30_000}).status_code == 200


def test_a_body_that_comes_a_byte_at_a_time_is_given_up(quick):
    with quick.connect(HEAD + b"content-length: 1000000\r\n\r\n") as connection:
        assert dribble(connection).startswith(b"HTTP/1.1 408 ")


@pytest.mark.parametrize("piece", [b"1\r\nx\r\n", b"0\r\nx-trailer: y"])
def test_chunks_and_trailers_have_the_same_deadline(quick, piece):
    with quick.connect(HEAD + b"transfer-encoding: chunked\r\n\r\n" + piece) as connection:
        rest = b"x" if b"trailer" in piece else piece
        assert dribble(connection, rest).startswith(b"HTTP/1.1 408 ")


def test_a_trailer_without_end_is_not_kept(held):
    with held.connect(HEAD + b"transfer-encoding: chunked\r\n\r\n0\r\nx: ") as connection:
        with suppress(ConnectionError):
            for _ in range(1_024):
                connection.sendall(b"x" * 1_024)
        assert answer_of(connection) == b""


def test_a_large_body_goes_through_though_it_takes_longer_than_any_deadline():
    """Each piece comes in time, and all of them take longer than one may stall."""
    pieces, size, stalled = 20, 20_000, 2
    guarded = Guard(routes(), loopback_only=True, patience=(stalled, 1))
    head = HEAD + b"content-length: %d\r\n\r\n" % (pieces * size)
    with served(guarded, QUICK) as server, server.connect(head) as connection:
        pause = threading.Event()
        for _ in range(pieces):
            connection.sendall(b"x" * size)
            pause.wait(1.5 * stalled / pieces)
        assert connection.recv(65_536).endswith(b"\r\n\r\n%d" % (pieces * size))


def test_the_rest_of_a_body_that_nobody_reads_is_not_waited_for(quick):
    said = b"POST /unread HTTP/1.1\r\nhost: localhost\r\ncontent-length: 1000000\r\n\r\n"
    with quick.connect(said) as connection:
        heard = dribble(connection)
    assert heard.startswith(b"HTTP/1.1 200 ")
    assert heard.endswith(b'"not read"')


def test_events_go_on_beyond_every_deadline(quick):
    with httpx2.stream("GET", f"{quick.url}/events", timeout=PATIENCE) as answer:
        said = [line for line in answer.iter_lines() if line]
    assert said == [f"data: {number}" for number in range(3)]


def test_a_new_caller_is_answered_however_many_are_silent(held):
    with ExitStack() as silent:
        connections = [silent.enter_context(held.connect()) for _ in range(100)]
        assert httpx2.get(held.url).status_code == 200
        assert answer_of(connections[0]) == b"", "the one that was silent for longest made room"


def test_where_every_connection_is_at_work_one_more_is_told_so():
    with served(routes(), HELD) as server, ExitStack() as busy:
        waiting = HEAD + b"content-length: 1\r\n\r\n"
        at_work = []
        for _ in range(HELD.connections):
            connection = busy.enter_context(server.connect(waiting))
            at_work.append(connection)
        answer = httpx2.get(server.url)
        while answer.status_code == 200:  # one of them was still idle
            answer = httpx2.get(server.url)
        assert answer.status_code == 503
        assert answer.headers["retry-after"] == "5"
        assert answer.json()["type"] == "urn:tpu-steward:problem:too-many-connections"
        at_work[-1].sendall(b"x")
        assert at_work[-1].recv(65_536).startswith(b"HTTP/1.1 200 ")
        assert httpx2.get(server.url).status_code == 200, "it is idle, and makes room"


def test_an_upgrade_leaves_the_limits_in_place(held):
    said = b"GET / HTTP/1.1\r\nhost: localhost\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n"
    with held.connect(said) as connection:
        assert connection.recv(65_536).startswith(b"HTTP/1.1 200 ")


@pytest.mark.parametrize(
    ("descriptors", "most"),
    [(128, 48), (1_024, 944), (90, 10), (60, 8), (10**6, 10_000), (-1, 10_000)],
)
def test_the_limit_follows_from_the_descriptors_of_the_process(monkeypatch, descriptors, most):
    monkeypatch.setattr("resource.getrlimit", lambda _: (descriptors, descriptors))
    assert most_connections() == most
