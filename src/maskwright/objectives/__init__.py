"""What a model is trained to do, and how a trained one is corrected or averaged."""
