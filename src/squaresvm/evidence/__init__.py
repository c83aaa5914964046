"""Evidence that does not depend on trusting who made it: hashes of rows, receipts, chains, proofs of absence."""
