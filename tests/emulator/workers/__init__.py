"""What runs on a worker, and what it sees."""
