"""Figures and the report page, drawn from tables and arrays that other packages compute.

Every `draw_…` function takes tables or arrays and returns a matplotlib figure.
"""
