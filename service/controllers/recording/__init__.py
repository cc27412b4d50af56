"""Writes what was observed, and posts it to the ledger."""
