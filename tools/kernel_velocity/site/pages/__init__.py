"""The pages of a site: each module yields the pages of its kind, and the data files that their scripts read.

home.py             index.html: what changed, every series, commits
home_table.py       its cards of changes and its table of series
kernel.py           kernel-<kernel>-<Device>.html: the chart, the tables, the rates by size, the source
kernel_chart.py     its chart: marks, quantities, data
commit_facts.py     commit-<8 digits>.html: what a commit changed, and how it was built, above compare.html's tables
machine_code.py     code-<8 digits>.html: the machine code that a commit changed, side by side
finding.py          finding-<id>.html: a finding with its evidence, its chart and the commands to decide. findings.html
roofline.py         roofline.html: the newest times below the measured roofs, in a plot
measurement.py      measurement.html: how a number came to be, from its rounds
machines.py         machines.html: what each machine is, and what it can do at most
"""
