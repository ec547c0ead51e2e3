"""Bytes and lines of files, compressed or not, whole or in parts of whole items."""
