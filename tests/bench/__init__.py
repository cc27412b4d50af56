"""Figures of speed, each a ratio or a bound from one run; nothing here is a test."""
