"""The program on each worker of a node with a job: shipped as text, imported by nothing."""
