"""Workers that are played."""
