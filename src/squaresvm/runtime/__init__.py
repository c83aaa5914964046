"""What the machine offers: threads, memory, files that are replaced whole, progress on a terminal."""
