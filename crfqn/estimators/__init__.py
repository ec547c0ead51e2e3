"""What users fit: estimators, and what they are made of."""
