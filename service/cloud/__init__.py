"""The ports to the cloud, and their implementations."""
