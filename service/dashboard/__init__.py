"""Server-rendered pages over the same application methods as the API."""
