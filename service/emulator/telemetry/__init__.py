"""The telemetry of the emulated cloud: time series, log entries and the price list."""
