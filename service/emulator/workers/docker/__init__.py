"""A stand-in for docker on an emulated worker: it runs nothing, it plays what containers would do.

Programs of their own in a bare interpreter: the standard library only.
"""
