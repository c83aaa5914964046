"""Pages for people: what a model is, how good it is, and what was asked of it."""
