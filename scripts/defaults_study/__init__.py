"""The study of default strengths: score against strength on many sets, and what rules of data would have chosen."""
