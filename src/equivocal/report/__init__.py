"""Figures and the report page: draws tables and arrays that other packages computed.

Every `draw_…` function takes tables or arrays and returns a matplotlib figure.
"""
