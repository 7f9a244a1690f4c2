"""The other side of a benchmark, in a process and an environment of its own."""

import json
import subprocess
from pathlib import Path

HERE = Path(__file__).parent


class Peer:
    """A script that answers each line of JSON with one; its first line is its version."""

    def __init__(self, python: str, script: str, *arguments: str) -> None:
        self.script = script
        self.process = subprocess.Popen(
            [python, HERE / script, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self.version = self.read()["version"]

    def read(self) -> dict:
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(
                f"the other side ended; benchmarks/{self.script}, run by hand, says why"
            )
        return json.loads(line)

    def ask(self, case: dict) -> dict:
        self.process.stdin.write(json.dumps(case) + "\n")
        self.process.stdin.flush()
        return self.read()
