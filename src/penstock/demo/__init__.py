"""See the limits kept: a real provider, real workers, one command."""

from typing import Final

# Where the tasks find the database and the provider.
STORE: Final = "PENSTOCK_DEMO_STORE"
PROVIDER: Final = "PENSTOCK_DEMO_PROVIDER"
NAP: Final = "200ms"  # between the two calls of a workflow
