"""The interfaces of the emulator: gRPC, REST, and its own control routes."""
