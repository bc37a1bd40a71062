"""Other people's models, fine-tuned on the stream by their own classes."""
