"""How the spec writes things, and what the engine calls them."""
