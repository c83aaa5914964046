"""Solvers: each searches, none judges its own answer."""
