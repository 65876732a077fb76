"""The monitor: pages that show every gate, every line, and why a job waits.

`Monitor` is an ASGI application of its own; it can be mounted under any path.
"""

from penstock.http.access import Access, Role
from penstock.monitor.asgi import Monitor

__all__ = ["Access", "Monitor", "Role"]
