"""Level-triggered loops that bring what the cloud shows to what was asked."""
