"""Faults on command: failures and delays of calls."""
