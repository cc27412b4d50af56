"""Decides where a node is tried next: zones, quotas and cooldowns."""
