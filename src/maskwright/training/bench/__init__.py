"""`maskwright bench`: what packing saves on one's own model, texts and machine."""
