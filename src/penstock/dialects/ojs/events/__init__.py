"""Events in the spec's words: as streams, on sockets and to webhooks."""
