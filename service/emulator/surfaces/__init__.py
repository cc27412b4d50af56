"""How a call comes in and goes out: gRPC, REST, and the emulator's own control routes."""
