"""Budgets: limits, admission and alerts."""
