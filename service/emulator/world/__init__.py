"""The state machine of the emulated cloud. Its clock is passed in."""
