"""What the studies of papers share: how runs are recorded, kept, drawn, and written down."""
