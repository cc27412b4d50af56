"""Queued resources: their admission, their states, and their end."""
