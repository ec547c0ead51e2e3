"""Label taxonomies: the tree, labels that are paths, and the forms in which users give them."""
