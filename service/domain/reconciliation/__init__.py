"""Google's bill compared with the ledger."""
