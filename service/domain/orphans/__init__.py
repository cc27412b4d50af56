"""Orphans: cloud resources without a live record in this service."""
