"""Threads in the background, and waiting for what they find."""
