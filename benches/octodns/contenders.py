"""The two tools: how each is configured, fed and called. Both get the same records and the defaults."""

import os
import shlex
import subprocess

TTL = 300


def address(number):
    return f"10.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}"


class Contender:
    """A tool with a configuration of its own in a directory of its own, bound to one server."""

    name = ""

    def __init__(self, directory, server, zones, size):
        self.directory, self.server, self.zones, self.size = directory, server, zones, size
        self.override = {}
        directory.mkdir(parents=True)

    def environment(self):
        return {"PATH": os.environ["PATH"], "HOME": str(self.directory), "LANG": "C.UTF-8"}

    def records(self, zone):
        """(label, address) of a zone; what `edit` changed comes out changed."""
        for number in range(self.size):
            label = f"h{number}"
            yield label, self.override.get((zone, label), address(number))

    def edit(self, content):
        """Changes the first record of the first zone, in the way a user of the tool would."""
        self.override[self.zones[0], "h0"] = content
        self.write(self.zones[0])
        self.publish("change one record")

    def publish(self, message):
        """Makes what was written the desired state; a plain folder needs nothing."""


class Octodns(Contender):
    name = "octodns"

    def __init__(self, program, *rest):
        super().__init__(*rest)
        self.program = program
        (self.directory / "zones").mkdir()
        lines = [
            "providers:",
            f"  config: {{class: octodns.provider.yaml.YamlProvider, directory: {self.directory}/zones, "
            f"default_ttl: {TTL}, enforce_order: false}}",
            f"  {self.server.entry}: {self.server.octodns()}",
            "zones:",
            *(f"  {zone}: {{sources: [config], targets: [{self.server.entry}]}}" for zone in self.zones),
        ]
        (self.directory / "config.yaml").write_text("\n".join(lines) + "\n", encoding="utf-8")
        for zone in self.zones:
            self.write(zone)

    def write(self, zone):
        with (self.directory / "zones" / f"{zone}yaml").open("w", encoding="utf-8") as file:
            for label, content in self.records(zone):
                file.write(f"{label}: {{type: A, value: {content}}}\n")

    def apply(self):
        return [self.program, f"--config-file={self.directory}/config.yaml", "--doit"]

    def plan(self):
        return [self.program, f"--config-file={self.directory}/config.yaml"]

    @staticmethod
    def plan_is_empty(run, output):
        return run["exit"] == 0 and "No changes were planned" in output


class Reconciled(Contender):
    name = "reconciled"

    def __init__(self, binary, plan_args, *rest):
        super().__init__(*rest)
        self.binary, self.plan_args = binary, shlex.split(plan_args)
        self.work, bare = self.directory / "work", self.directory / "infra.git"
        (self.directory / "config.yaml").write_text(
            "instance: bench\n"
            f"stateDir: {self.directory}/state\n"
            f"sources:\n  - {{name: infra, url: {bare}, branch: main, path: .}}\n"
            "providers:\n"
            f"  - {self.server.reconciled(self.directory)}\n",
            encoding="utf-8",
        )
        self.git(self.directory, "init", "--quiet", "--bare", "--initial-branch=main", str(bare))
        self.git(self.directory, "init", "--quiet", "--initial-branch=main", str(self.work))
        self.git(self.work, "remote", "add", "origin", str(bare))
        for zone in self.zones:
            self.write(zone)
        self.publish("declare the zones")

    def git(self, directory, *arguments):
        identity = ["-c", "user.name=bench", "-c", "user.email=bench@localhost"]
        environment = self.environment() | {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
        subprocess.run(["git", *identity, *arguments], cwd=directory, env=environment, check=True)

    def write(self, zone):
        name = zone.removesuffix(".")
        with (self.work / f"{name}.yaml").open("w", encoding="utf-8") as file:
            file.write(f"apiVersion: dns/v1\nkind: Zone\nmetadata: {{name: {name}}}\n")
            file.write(f"spec:\n  provider: {self.server.entry}\n  ttl: {TTL}\n  records:\n")
            for label, content in self.records(zone):
                file.write(f"    - {{name: {label}, type: A, values: [{content}]}}\n")

    def publish(self, message):
        self.git(self.work, "add", "--all")
        self.git(self.work, "commit", "--quiet", "--message", message)
        self.git(self.work, "push", "--quiet", "origin", "main")

    def command(self, *arguments):
        return [self.binary, "--config", str(self.directory / "config.yaml"), *arguments]

    def apply(self):
        return self.command("apply", "--yes")

    def plan(self):
        return self.command("plan", "--detailed-exitcode", *self.plan_args)

    @staticmethod
    def plan_is_empty(run, _output):
        # With --detailed-exitcode, pending changes are exit code 2.
        return run["exit"] == 0


def version(program):
    """What a program says of its version; a tool that cannot even say that is not worth a run."""
    answer = subprocess.run([program, "--version"], capture_output=True, text=True)
    if answer.returncode != 0 or not answer.stdout.strip():
        raise SystemExit(f"error: {program} --version ended with {answer.returncode}\n{answer.stderr.strip()}")
    return answer.stdout.strip().partition(" ")[2]
