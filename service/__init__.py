"""TPU Steward owns the life of every Cloud TPU in your projects."""
