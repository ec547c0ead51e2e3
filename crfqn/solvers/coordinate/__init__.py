"""Block coordinate descent by the rows of the weights; by feature it is in `papers/zhong2014/feature_bcd.py`."""
