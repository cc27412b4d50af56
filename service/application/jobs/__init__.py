"""Jobs: submission, status, cost and logs."""
