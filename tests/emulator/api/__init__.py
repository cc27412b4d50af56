"""The calls of each service and version."""
