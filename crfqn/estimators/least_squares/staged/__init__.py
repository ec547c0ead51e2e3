"""Models made of stages, each fitted to what the stages before have left over."""
