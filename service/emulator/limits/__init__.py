"""How much there is: hardware and quota, and how they are counted."""
