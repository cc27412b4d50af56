"""Resources in the cloud that no record accounts for."""
