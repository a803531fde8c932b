"""`tools/dev bench`: what our layers cost."""

from . import build, tests
from .console import Console


def run(console: Console, *, rounds: int) -> int:
    build.build(console)
    plugin = tests.plugin(tests.FIRST_PLUGIN)
    command = ["cargo", "run", "--release", "--locked", "-q", "-p", "pjrt", "--example", "chain_overhead", "--"]
    command += ["--cpu-plugin", str(plugin), "--shim", str(tests.SHIM), "--rounds", str(rounds)]
    with console.stage("chain overhead"):
        output = console.run("chain overhead", command, advice="Close other programs: the runs are compared.")
    console.say(output.rstrip())
    return 0
