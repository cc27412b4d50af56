"""Compares all that the cloud lists with the records."""
