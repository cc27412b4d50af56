"""Nodes: how they are requested, created and reached."""
