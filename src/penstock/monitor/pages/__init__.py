"""The pages: each a function of what the engine shows and of the query, and the template that makes HTML of it."""
