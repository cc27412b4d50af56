"""`demo`: a month of a small lab, lived through by the real code, then served in real time."""
