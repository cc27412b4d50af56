"""What a caller may ask; each public method is one unit of work."""
