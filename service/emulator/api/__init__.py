"""The RPCs, each from its request to its response, and the table of all RPCs."""
