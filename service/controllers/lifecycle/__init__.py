"""Brings each node from what the cloud shows to what was requested."""
