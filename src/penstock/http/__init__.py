"""The HTTP server: routes, tokens, and one engine behind many requests."""
