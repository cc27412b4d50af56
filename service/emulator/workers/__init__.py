"""The machines of the emulated nodes: their metadata servers and their processes."""
