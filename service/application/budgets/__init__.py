"""Budgets and their admission."""
