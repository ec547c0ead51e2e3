"""What the commands do, a module each; their options are declared in `app.py`."""
