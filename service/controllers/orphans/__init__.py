"""Finds and deletes what no record accounts for."""
