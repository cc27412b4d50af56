"""Registries and Cloud Storage."""
