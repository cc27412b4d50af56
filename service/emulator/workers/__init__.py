"""The machines of the emulated nodes: what their metadata servers say, and what they run."""
