"""Routes and response models of budgets."""
