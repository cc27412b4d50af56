"""Hardware capacity and quota."""
