"""What the tests share: the oracle, problems with known optima, histories of requests, forged files."""
