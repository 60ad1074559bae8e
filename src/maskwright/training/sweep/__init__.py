"""Tasks x variants x seeds of fine-tuning, each in a process of its own, and what may be concluded from them."""
