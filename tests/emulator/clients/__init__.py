"""Google's clients and those of others, against a served emulator."""
