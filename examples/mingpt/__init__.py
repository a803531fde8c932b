"""A small GPT that learns to write English, character by character."""
