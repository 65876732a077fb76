"""Tests of every store that have something to say of one only."""

import pytest

on_sqlite = pytest.mark.parametrize("store", ["sqlite"], indirect=True)
on_postgres = pytest.mark.parametrize("store", ["postgres"], indirect=True)
