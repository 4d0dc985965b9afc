"""The dashboard: writes a folder of pages and data files that a browser reads without a server (`kv report`).

May import findings, verdict, roofline and the rooms below them. Pages compute, templates only show
(`html_templates/`).

report.py       the command: makes all parts of a site, a large one in two processes
model.py        `Site`, what the pages ask: the past, findings, ceilings, sessions, roofs
writer.py       pages and data files, which are written where their inputs changed
text.py         results as words, cells of tables, links and footnotes
series_data.py  the trends as data files
outside.py      an Atom feed of what changed, and a badge for each kernel and device
pages/          a module for each kind of page
charts/         charts and small figures as SVG, and the library of the interactive charts
"""
