"""Rankings of labels for items that have several."""
