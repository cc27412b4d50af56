"""Container images and storage objects, which programs on workers read and write."""
