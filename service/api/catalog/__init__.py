"""Routes of what the cloud offers: types, runtimes, capacity and quotas."""
