"""One request to the server, sent again where its answer was lost.

Every verb may be sent again (`verbs.Repeat`).  One that the server remembers carries a key, under which the server
keeps its answer for a while.
"""

from typing import Any, Final, ParamSpec, TypeVar
from urllib.parse import quote

import msgspec
from msgspec import Struct

from penstock.acting import REASON, bound_actor
from penstock.client import errors
from penstock.client.address import ServerAddress
from penstock.client.clock import RemoteClock
from penstock.client.connections import Connections, LostError, Response
from penstock.client.verbs import Repeat, Verb
from penstock.client.wire import KEY, NOW, PATH, encode
from penstock.clock import SECOND, monotonic, pause
from penstock.errors import AccessError, PenstockError, StoreDownError, StoreError
from penstock.ids import new_id

P = ParamSpec("P")
B = TypeVar("B", bound=Struct)
A = TypeVar("A")

ANSWER: Final = 30.0
PATIENCE: Final = 10 * SECOND
_OK: Final = 200
_FIRST_REST, _LONGEST_REST = 0.05, 1.0


class Rpc:
    """Asks one server, and learns from each answer what time it is there."""

    def __init__(self, address: ServerAddress) -> None:
        self.address = address
        self.clock = RemoteClock()
        self._connections = Connections(address)
        self._decoders: dict[str, msgspec.json.Decoder[Any]] = {}

    def ask(self, verb: Verb[P, B, A], body: B, *, timeout: float = ANSWER) -> A:
        """Return the answer to *verb*; try again for a while if the server is away and the verb says so."""
        answer = self._answer(verb, encode(body), timeout)
        decoder = self._decoders.get(verb.name)
        if decoder is None:
            decoder = self._decoders[verb.name] = msgspec.json.Decoder(verb.answer)
        try:
            found: A = decoder.decode(answer.body)
        except msgspec.DecodeError as error:
            raise StoreDownError(f"the server at {self.address} sent no valid answer: {error}") from None
        return found

    def close(self) -> None:
        """Close all connections."""
        self._connections.close()

    def _answer(self, verb: Verb[P, B, A], body: bytes, timeout: float) -> Response:
        headers = {KEY: new_id()} if verb.repeat is Repeat.REMEMBERED else {}
        who = bound_actor()
        if who is not None and who.reason:
            headers[REASON] = quote(who.reason)
        end = monotonic() + (PATIENCE if verb.keeps_trying else 0)
        rest, again = _FIRST_REST, False
        while True:
            try:
                return self._once(verb.name, body, headers, timeout)
            except LostError as error:
                # Servers close connections that were idle for long; a new one is soon made.
                if not again and not error.late:
                    again = True
                    continue
                failure: StoreError = error
            except AccessError:
                raise
            except StoreError as error:
                failure = error
            if monotonic() + int(rest * SECOND) > end:
                raise failure
            pause(rest)
            rest = min(2 * rest, _LONGEST_REST)

    def _once(self, verb: str, body: bytes, headers: dict[str, str], timeout: float) -> Response:
        answer = self._connections.ask(PATH + verb, body, headers, timeout)
        arrived = answer.headers.get(NOW, "")
        if arrived.isdigit():
            self.clock.learn(answer.sent, int(arrived))
        if answer.status != _OK:
            raise self._refused(answer)
        return answer

    def _refused(self, answer: Response) -> PenstockError:
        return errors.from_wire(answer.status, answer.body, str(self.address))
