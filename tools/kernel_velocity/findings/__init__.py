"""Findings, the evidence for them, and the verdict of a night: values, decisions, files, texts.

Imports the leaves and `results`, `stats`, `series`. It measures nothing: `ab` and `nightly` make findings.

finding.py           one cause and the series that show it. Joining it with the recorded findings
decisions.py         what people and nights decide about a finding. Expectations, `Perf-Expected:` lines
evidence.py          re-runs round by round and bisections, the evidence of a finding, and its files (JSON)
store.py             files of findings, expectations, and of each machine's newest night (TOML)
evidence.py          re-runs round by round and bisections, the evidence of a finding, and its files (JSON)
text.py              a finding as text
verdict.py           the verdict of a night, its summary and its exit status
verdict_formats.py   the verdict as Markdown, JSON, JUnit XML
store.py             files of findings, expectations, and of each machine's newest night (TOML)
command.py           `kv findings`
"""
