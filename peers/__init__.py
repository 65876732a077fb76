"""How do others do, on the same server in the same minutes?  Run with `make bench-peers`."""
