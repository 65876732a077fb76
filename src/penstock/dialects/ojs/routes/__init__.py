"""What the spec offers: one file for each kind of thing."""
