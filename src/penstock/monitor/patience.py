"""Slow down those who try tokens: each address by itself, and all of them together."""

import ipaddress
from collections import OrderedDict
from typing import Final

from penstock.clock import SECOND

MINUTE: Final = 60 * SECOND
WRONG: Final = 5  # wrong tokens that one address may send in a minute
WRONG_IN_ALL: Final = 100  # the same for all addresses; after that each try takes a while
PAUSE: Final = SECOND  # how long a try takes then
ADDRESSES: Final = 1_000  # so many are remembered
_LONGEST: Final = 64  # characters of an address that is none
_NETWORK: Final = 64  # bits of an IPv6 address that its owner does not choose


class Patience:
    """Counts wrong tokens, of the addresses that sent one last."""

    def __init__(self) -> None:
        self._of: OrderedDict[str, tuple[int, int]] = OrderedDict()  # since when, and how many
        self._all = (0, 0)

    def refused_for(self, client: str, now: int) -> int:
        """Return how long the address must wait before it may try again."""
        since, wrong = self._of.get(_network(client), (0, 0))
        return max(since + MINUTE - now, 0) if wrong >= WRONG else 0

    def pause(self, now: int) -> int:
        """Return how long any try takes at present."""
        since, wrong = self._all
        return PAUSE if wrong >= WRONG_IN_ALL and now < since + MINUTE else 0

    def note_wrong(self, client: str, now: int) -> None:
        """Note that an address sent a token that is not known."""
        network = _network(client)
        self._of[network] = _counted(self._of.get(network, (0, 0)), now)
        self._of.move_to_end(network)
        if len(self._of) > ADDRESSES:
            self._of.popitem(last=False)
        self._all = _counted(self._all, now)


def _counted(count: tuple[int, int], now: int) -> tuple[int, int]:
    since, wrong = count
    return (since, wrong + 1) if since <= now < since + MINUTE else (now, 1)


def _network(client: str) -> str:
    try:
        address = ipaddress.ip_address(client)
    except ValueError:
        return client[:_LONGEST]
    if isinstance(address, ipaddress.IPv4Address):
        return client
    if address.ipv4_mapped is not None:  # so a socket for both kinds has it
        return str(address.ipv4_mapped)
    return str(ipaddress.ip_network((address, _NETWORK), strict=False))
