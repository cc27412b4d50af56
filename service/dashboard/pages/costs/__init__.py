"""The pages of money: costs, prices, budgets, commitments and bills."""
