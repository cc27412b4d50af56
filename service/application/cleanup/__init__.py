"""The cleanup of idle nodes: policies, plans, keeps, heartbeats and links in messages."""
