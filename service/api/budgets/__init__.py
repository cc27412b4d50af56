"""Routes of budgets."""
