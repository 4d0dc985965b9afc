"""Charts of the pages.

trend.py     the library of the interactive charts, uPlot
plot.py      a chart with axes as SVG
samples.py   the charts of the samples of a measurement
roofline.py  the plot of a roofline as SVG
svg.py       small figures as SVG
palette.py   colours and dashes of implementations
"""
