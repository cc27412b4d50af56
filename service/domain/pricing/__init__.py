"""What hardware costs: price lists, discounts, purchases and estimates."""
