"""File formats, a module each, and their registry: what people bring, read and written by name or extension."""
