"""A faithful Cloud TPU API on this machine, with faults on command and its own bill: an island."""
