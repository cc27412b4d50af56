"""The daemon: holds the leases, and runs the controllers."""
