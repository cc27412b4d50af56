"""What each RPC does, from its request to its response, and the table of all of them."""
