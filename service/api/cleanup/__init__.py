"""The cleanup of idle nodes over HTTP."""
