"""Commands about the cleanup of idle nodes."""
