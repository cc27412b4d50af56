"""Queued resources: what they ask for, what they wait for, and what becomes of them."""
