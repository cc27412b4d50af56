"""The HTTP servers of workers: their metadata, their serial console and their control channel."""
