"""Estimators made of estimators: windows over a stream, one model a pair of classes, pruning."""
