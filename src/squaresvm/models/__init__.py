"""Trained models, whole and frozen, and the steps that lead from one to the next."""
