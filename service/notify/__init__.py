"""Messages to people, by webhook and by e-mail."""
