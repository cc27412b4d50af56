"""Level-triggered loops that bring the cloud to the requested state."""
