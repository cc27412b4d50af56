"""Training jobs: what they are, what is said to workers and what workers say of them."""
