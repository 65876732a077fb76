"""Tests of every store that have something to say of one only."""

import pytest

on_sqlite = pytest.mark.parametrize("store", ["sqlite"], indirect=True)
on_postgres = pytest.mark.parametrize("store", ["postgres"], indirect=True)
# The same for tests of a server of every store.
server_on_sqlite = pytest.mark.parametrize("address", ["sqlite"], indirect=True)
