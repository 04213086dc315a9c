"""Grids of studies: does a result depend on choices that the paper leaves open?"""
