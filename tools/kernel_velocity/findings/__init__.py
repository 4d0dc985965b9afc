"""Findings, the evidence for them, and the verdict of a night: values, decisions, files, texts.

Imports the leaves and `results`, `stats`, `past`, `verdict`. It measures nothing: `ab` and `nightly` make findings.

finding.py      one cause and the series that show it. Joining it with the recorded findings
decisions.py    what people and nights decide about a finding. Expectations, `Perf-Expected:` lines
evidence.py     re-runs round by round and bisections, the evidence of a finding, and its files (JSON)
store.py        files of findings, expectations, and of each machine's newest night (TOML)
text.py         a finding as text
today.py        what today's values no longer hold of a finding
report.py       write what a gate or a night reports: Markdown, JSON, JUnit XML
verdict.py      the verdict of a night, its summary, its exit status, its report
command.py      `kv findings`
"""
