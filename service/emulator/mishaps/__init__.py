"""What goes wrong: faults on command, fates by chance, and scenarios from a file."""
