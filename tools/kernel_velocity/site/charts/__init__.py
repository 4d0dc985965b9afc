"""Charts of the pages.

plot.py      charts with axes and small ones without, as SVG, and the colours of implementations
samples.py   the charts of the samples of a measurement
uplot/       the library of the interactive charts
"""
