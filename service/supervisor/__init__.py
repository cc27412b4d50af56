"""The supervisor and the meter of each worker: shipped as text, imported by nothing."""
