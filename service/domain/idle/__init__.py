"""When a node is idle: signals, the rule of proof, policies, the course to a deletion, rails."""
