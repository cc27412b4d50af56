"""The pages of nodes, of their jobs, and of orphans."""
