"""Small mistakes in the service, each of which the nearest unit tests must notice."""
