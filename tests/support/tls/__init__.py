"""A certificate for localhost that signs itself, for tests."""

from pathlib import Path

CERT = Path(__file__).with_name("cert.pem")
KEY = Path(__file__).with_name("key.pem")
