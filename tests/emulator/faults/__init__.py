"""Faults on command."""
