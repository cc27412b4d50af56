"""Time series, log entries and the price list."""
