"""A stand-in for docker on an emulated worker: it runs a container's command here, or plays it.

Programs of their own in a bare interpreter: the standard library only.
"""
