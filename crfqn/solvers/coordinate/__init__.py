"""Block coordinate descent over rows of the weights; the version by feature is `papers/zhong2014/feature_bcd.py`."""
