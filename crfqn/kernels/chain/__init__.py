"""Inference over chains: messages, the best path, updates that touch a part of an item."""
