"""Workers that run nothing and play the supervisor's part of a job, on the world's own clock."""
