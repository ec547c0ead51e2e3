"""Bytes and lines of files, compressed or not, and files written as a whole or not at all."""
