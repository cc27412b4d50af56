"""Signals of activity, heartbeats among them."""
