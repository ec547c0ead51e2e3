"""Messages of chains kept from move to move, for block coordinate descent."""
