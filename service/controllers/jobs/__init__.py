"""Brings each job from its submission to its end."""
