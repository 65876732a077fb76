"""Slots that processes borrow from a store, so that a bulkhead is one limit for all of them."""
