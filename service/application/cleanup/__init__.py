"""The cleanup of idle nodes: policies, plans, and what callers say about nodes."""
