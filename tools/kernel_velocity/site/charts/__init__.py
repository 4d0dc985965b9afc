"""Charts of the pages.

trend.py      the library of the interactive charts, uPlot
roofline.py   Bokeh's plot of a roofline
documents.py  stores Bokeh's plots between reports
svg.py        small figures as SVG
palette.py    colours and dashes of implementations
"""
