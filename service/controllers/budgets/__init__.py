"""Watches budgets, and sends their messages."""
