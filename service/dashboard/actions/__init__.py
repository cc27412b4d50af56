"""Forms of the dashboard: what a person can change from a page."""
