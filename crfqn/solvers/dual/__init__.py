"""Dual methods: blocks of dual variables, an item each."""
