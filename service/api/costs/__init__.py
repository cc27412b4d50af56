"""Routes of costs, forecasts, commitments, reservations and bills."""
