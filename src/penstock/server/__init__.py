"""The HTTP server: who may ask, what is asked for, and how the answer is written."""
