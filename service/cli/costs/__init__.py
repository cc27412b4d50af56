"""Commands about money: costs, prices, budgets, commitments and bills."""
