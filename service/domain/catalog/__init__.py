"""What Google offers: accelerators, zones, images and runtime versions."""
