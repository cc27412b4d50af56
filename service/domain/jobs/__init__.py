"""Training jobs: what is submitted, what a worker reports, and what to do next. Pure."""
