"""Costs, forecasts, statements and exports."""
