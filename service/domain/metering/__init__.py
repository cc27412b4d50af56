"""Metering: from billable seconds to the entries of the ledger."""
