"""Features of a kernel from landmarks."""
