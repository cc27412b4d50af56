"""Hardware and quota."""
