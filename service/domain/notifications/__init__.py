"""Notifications of people by webhook and by e-mail."""
