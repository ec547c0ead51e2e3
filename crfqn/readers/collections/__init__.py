"""Readers of published collections, a module each: the forms in which particular data sets are handed out."""
