"""Train a forecaster on the stream."""
