"""Evidence that others can check: hashes of rows, receipts in chains, proofs of absence."""
