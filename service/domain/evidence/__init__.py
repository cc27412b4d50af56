"""Evidence of when a node ran: polls, operations and Google's audit log."""
