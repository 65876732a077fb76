"""The spec's routes: one file for each resource."""
