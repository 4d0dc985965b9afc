"""The workflow files and the composite actions as data, and their steps as a runner runs them."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / ".github" / "workflows"
SCRIPTS = ROOT / ".github" / "scripts"
ACTIONS = ROOT / ".github" / "actions"
PATHS = sorted(FOLDER.iterdir())
ACTION_PATHS = sorted(ACTIONS.glob("*/action.yml"))


def read(path: Path) -> dict[str, Any]:
    """Return a workflow. YAML 1.2, as GitHub reads it: `on` is a word and no truth value."""
    result: dict[str, Any] = YAML(typ="safe").load(path.read_text(encoding="utf-8"))
    return result


ACTION = {path.parent.name: read(path) for path in ACTION_PATHS}
WORKFLOWS = {path.name: read(path) for path in PATHS}


def jobs() -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Yield (file, name, job)."""
    for file, workflow in WORKFLOWS.items():
        for name, job in workflow["jobs"].items():
            yield file, name, job


def action_steps() -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield (where, step) of the composite actions."""
    for name, action in ACTION.items():
        for step in action["runs"]["steps"]:
            yield f"{name}: {step['name']}", step


def steps() -> Iterator[tuple[str, dict[str, Any], dict[str, Any]]]:
    """Yield (where, job, step)."""
    for file, name, job in jobs():
        for number, step in enumerate(job["steps"]):
            yield f"{file}: {name}: {step.get('name', number)}", job, step


def run_step(step: dict[str, Any], folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a step's script as a runner does."""
    command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]]
    environ = {**os.environ, **variables}
    return subprocess.run(command, cwd=folder, env=environ, capture_output=True, text=True, check=False)
