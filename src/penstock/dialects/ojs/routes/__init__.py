"""The spec's routes: one file for each resource.  Their paths are below /ojs/v1, but for those of `system`."""
