"""Routes of prices and discounts."""
