"""Events of nodes without a call: random events, and scenarios from a file."""
