"""A stand-in for docker on a worker, in the standard library only: it runs or plays containers."""
