"""Faults on command: which calls go wrong, and how."""
