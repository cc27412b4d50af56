"""Queued resources."""
