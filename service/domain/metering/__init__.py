"""From billable seconds to the rows of the ledger."""
