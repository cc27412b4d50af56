"""What forecasts are worth: a thousand simulated months, and what came of each."""
