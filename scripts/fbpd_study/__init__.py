"""The study of Chierchia, Pustelnik, Pesquet and Pesquet-Popescu (2015)."""
