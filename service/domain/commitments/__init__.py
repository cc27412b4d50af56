"""Committed-use discounts: the commitments, the usage that each covers, and the cost of both."""
