"""The world: what nodes go through, and what they cost."""
