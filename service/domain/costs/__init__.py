"""Costs as they are shown: sums, forecasts, explanations and exports."""
