"""How much there is: hardware, quota, reservations, and how they are counted."""
