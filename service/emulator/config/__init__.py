"""The configuration of the emulator, and the checks of each of its keys."""
