"""As much of httpx as the article's tasks use, with the provider at PROVIDER whatever they say."""

import json
import os
from http.client import HTTPConnection
from urllib.parse import urlencode, urlsplit


class Response:
    def __init__(self, status: int, body: bytes) -> None:
        self.status_code = status
        self._body = body

    def raise_for_status(self) -> None:
        if self.status_code >= 400:
            raise RuntimeError(f"the provider answered {self.status_code}")

    def json(self):
        return json.loads(self._body)


def post(url: str, *, params=None, timeout: float) -> Response:
    parts = urlsplit(url)
    query = f"?{urlencode(params)}" if params else ""
    connection = HTTPConnection(os.environ.get("PROVIDER", parts.netloc), timeout=timeout)
    try:
        connection.request("POST", parts.path + query, headers={"Content-Length": "0"})
        answer = connection.getresponse()
        return Response(answer.status, answer.read())
    finally:
        connection.close()
