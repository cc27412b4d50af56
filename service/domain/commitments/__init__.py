"""Committed-use discounts: what was committed, which usage each covers, and what both cost."""
