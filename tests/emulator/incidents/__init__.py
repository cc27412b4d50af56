"""Random events and scenarios."""
