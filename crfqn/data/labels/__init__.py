"""Labels of positions: their codes, labels known in part, and the schemes that write spans as labels."""
