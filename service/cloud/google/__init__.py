"""Cloud TPU through the real Google clients."""
