"""Nodes as they are requested, created and reached."""
