"""Training an APEX-1 from text files: corpus, tokenizer, run, measurements, model card."""
