"""A faithful Cloud TPU API on this machine, with injected faults and a bill of its own."""
