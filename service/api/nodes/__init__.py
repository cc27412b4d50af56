"""Routes of nodes."""
