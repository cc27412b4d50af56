"""What every route needs of HTTP: authentication, problems, schemas and limits."""
