"""Makes the pictures of the README and of the manual."""
