"""The cloud, in our words."""
