"""Decides the next step of a node, from its request to its verified end."""
