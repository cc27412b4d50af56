"""Nodes and their workers."""
