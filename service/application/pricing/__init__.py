"""Prices, discounts, estimates and purchases."""
