"""When a node really ran: polls, operations and Google's audit log."""
