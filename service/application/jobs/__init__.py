"""What callers may ask of jobs."""
