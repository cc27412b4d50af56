"""Idle nodes: what was measured, what it proves, and who is stopped or deleted for it."""
