"""The engine's verbs over HTTP: what a worker or a producer asks of a server instead of a database."""

from penstock.client.address import TOKEN, ServerAddress, server_address
from penstock.client.engine import RemoteEngine

__all__ = ["TOKEN", "RemoteEngine", "ServerAddress", "server_address"]
