"""How costs are shown: sums, forecasts, explanations and exports."""
