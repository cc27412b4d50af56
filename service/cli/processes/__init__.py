"""The commands that run the servers, and the processes that they start."""
