"""Charts of the pages.

plot.py      charts with axes and small ones without, as SVG, and the colours of implementations
uplot/       the library of the interactive charts
"""
