"""What costs money without work, and what needs a person or happens next."""
