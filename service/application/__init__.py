"""The services that callers use; each public method is one unit of work."""
