"""CRFsuite's binary model files: the layout (`model`), its string tables (`database`) and their hash (`lookup3`)."""
