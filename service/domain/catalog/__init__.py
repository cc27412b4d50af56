"""The catalogue of Google's offers: accelerators, zones, images and runtime versions."""
