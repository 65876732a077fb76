"""A server that is asked to stop."""

import http.client
import json
import signal
import socket
from urllib.parse import urlsplit

import pytest

from tests.support.server import MEDIA, PATIENCE, Served

JOB = json.dumps({"type": "some.work", "args": []}).encode()


@pytest.fixture
def server(tmp_path):
    one = Served(tmp_path / "jobs.db")
    one.start()
    yield one
    one.stop()


def refuses(url):
    """Return whether nothing listens at *url* any more."""
    parts = urlsplit(url)
    try:
        socket.create_connection((parts.hostname, parts.port), PATIENCE).close()
    except ConnectionRefusedError:
        return True
    return False


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_server_asked_to_stop_answers_what_is_under_way_and_ends_with_0(number, server):
    parts = urlsplit(server.url)
    request = socket.create_connection((parts.hostname, parts.port), PATIENCE)
    head = f"POST /ojs/v1/jobs HTTP/1.1\r\nHost: {parts.netloc}\r\nContent-Type: {MEDIA}\r\n"
    request.sendall(f"{head}Content-Length: {len(JOB)}\r\nExpect: 100-continue\r\n\r\n".encode())
    assert request.recv(1024).startswith(b"HTTP/1.1 100")  # it has begun to read this one

    server.signal(number)
    server.until(lambda: refuses(server.url))
    request.sendall(JOB)
    answer = http.client.HTTPResponse(request)
    answer.begin()

    assert 201 == answer.status
    answer.close()
    request.close()
    assert 0 == server.wait(), "".join(server.log)
    assert "Traceback" not in "".join(server.log)
