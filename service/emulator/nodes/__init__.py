"""Nodes and their workers: their records, their activity, and their guest attributes."""
