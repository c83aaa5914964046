"""What can be said of a model: leave-one-out values, probabilities, intervals."""
