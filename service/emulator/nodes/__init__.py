"""Nodes and their workers: what is recorded of them, and what they were told to do."""
