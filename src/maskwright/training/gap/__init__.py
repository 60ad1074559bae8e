"""How far the network that people fine-tune is from the average of the networks that were pretrained."""
