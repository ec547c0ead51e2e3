"""Label taxonomies: the tree, labels that are paths, and readers of the forms in which users have them."""
