"""The daemon: it holds the leases, and gives controllers their turns."""
