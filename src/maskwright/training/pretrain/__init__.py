"""Pretraining of masked language models and masked autoencoders on text of one's own."""
