"""Budgets: admission and alerts."""
