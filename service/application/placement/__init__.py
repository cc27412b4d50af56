"""Capacity and quotas."""
