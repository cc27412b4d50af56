"""How calls come in: gRPC, REST, control routes and the status page."""
