"""Inference over chains: forward-backward, Viterbi, stochastic steps, messages for block coordinate descent."""
