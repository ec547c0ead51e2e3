"""Text as people bring it: names, tags, entities and chunks against CRFsuite, flat texts against scikit-learn."""
