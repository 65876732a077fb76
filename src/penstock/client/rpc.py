"""Ask the server, and ask again where that is safe.

A question carries a key, under which the server remembers its answer for a while: sent again after a lost
answer, it does nothing twice.
"""

from typing import Any, Final, TypeVar

import msgspec

from penstock.client import errors
from penstock.client.address import ServerAddress
from penstock.client.clock import RemoteClock
from penstock.client.connections import Connections, LostError, Response
from penstock.client.wire import KEY, NOW, PATH, encode
from penstock.clock import SECOND, monotonic, pause
from penstock.errors import AccessError, PenstockError, StoreDownError, StoreError
from penstock.ids import new_id

T = TypeVar("T")

ANSWER: Final = 30.0
PATIENCE: Final = 10.0
_OK: Final = 200
_FIRST_REST, _LONGEST_REST = 0.05, 1.0


class Rpc:
    """Asks one server, and learns from each answer what time it is there."""

    def __init__(self, address: ServerAddress) -> None:
        self.address = address
        self.clock = RemoteClock()
        self._connections = Connections(address)
        self._decoders: dict[Any, msgspec.json.Decoder[Any]] = {}

    def ask(
        self, verb: str, body: object, kind: type[T], *, patience: float = 0.0, timeout: float = ANSWER
    ) -> T:
        """Return the answer to *verb* as *kind*; for *patience* seconds try again while the server is away."""
        answer = self._answer(verb, encode(body), patience, timeout)
        decoder = self._decoders.get(kind)
        if decoder is None:
            decoder = self._decoders[kind] = msgspec.json.Decoder(kind)
        try:
            found: T = decoder.decode(answer.body)
        except msgspec.DecodeError as error:
            raise StoreDownError(
                f"the server at {self.address} answered what nobody understands: {error}"
            ) from None
        return found

    def close(self) -> None:
        """Hang up."""
        self._connections.close()

    def _answer(self, verb: str, body: bytes, patience: float, timeout: float) -> Response:
        headers = {KEY: new_id()}
        end = monotonic() + int(patience * SECOND)
        rest, again = _FIRST_REST, False
        while True:
            try:
                return self._once(verb, body, headers, timeout)
            except LostError as error:
                # Servers hang up on those who were silent; and a new connection is soon made.
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
