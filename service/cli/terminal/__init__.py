"""The terminal and the way to the service: settings, requests, tables and errors."""
