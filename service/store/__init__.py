"""All SQL: rows in, domain objects out."""
