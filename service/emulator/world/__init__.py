"""The state machine of the emulated cloud, on a clock that is given to it."""
