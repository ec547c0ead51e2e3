"""Loops of the methods that learn item by item; what they share across structures."""
