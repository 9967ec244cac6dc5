"""500 parameters of AWS, as MiniStack plays it, with the real provider: one process that stays against Terraform's runs."""

import http.client
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time

# What the project wants: reads a second of a pass without changes, MB of an idle daemon with its provider, seconds
# that a schema takes which is in the cache.
READS, MEMORY, SCHEMA = 300, 150, 0.15
# As many requests at once as the daemon has the provider make.
CONNECTIONS = 10
CREDENTIALS = {"AWS_ACCESS_KEY_ID": "AKIAEXAMPLE", "AWS_SECRET_ACCESS_KEY": "example"}
SKIPS = ["skip_credentials_validation", "skip_requesting_account_id", "skip_metadata_api_check", "skip_get_ec2_platforms"]


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def wait_for(what, holds, seconds=60):
    end = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > end:
            sys.exit(f"{what}: not within {seconds} s")
        time.sleep(0.05)


class MiniStack:
    """The server, and what counts the requests to it where that is asked for."""

    def __init__(self, program, folder):
        self.port, self.requests, self.passed = free_port(), 0, []
        surroundings = {
            **os.environ,
            "BIND_HOST": "127.0.0.1",
            "GATEWAY_PORT": str(self.port),
            "DOCKER_HOST": "unix:///nonexistent",
        }
        log = open(folder / "ministack.log", "wb")
        self.process = subprocess.Popen(self.command(program), env=surroundings, stdout=log, stderr=log)
        wait_for("MiniStack", self.answers)
        self.counting = socket.create_server(("127.0.0.1", 0))
        threading.Thread(target=self.accept, daemon=True).start()

    def command(self, program):
        """As it is started alone, but for its loop: with uvloop the server takes a third less of the two cores that all share."""
        python = pathlib.Path(program).parent / "python"
        self.is_fast = subprocess.run([python, "-c", "import uvloop"], capture_output=True).returncode == 0
        if not self.is_fast:
            return [program]
        bind = ["--bind", f"127.0.0.1:{self.port}", "--keep-alive", "75", "--workers", "0"]
        return [python, "-m", "hypercorn", "ministack.app:app", "--worker-class", "uvloop", *bind]

    def answers(self):
        try:
            connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=2)
            connection.request("GET", "/")
            connection.getresponse()
            return True
        except OSError:
            return False

    def value(self, name):
        """What a parameter has, past what counts."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        scope = "Credential=AKIAEXAMPLE/20260101/us-east-1/ssm/aws4_request"
        headers = {
            "X-Amz-Target": "AmazonSSM.GetParameter",
            "Content-Type": "application/x-amz-json-1.1",
            "Authorization": f"AWS4-HMAC-SHA256 {scope}, SignedHeaders=host, Signature=0",
        }
        connection.request("POST", "/", json.dumps({"Name": name}), headers)
        return json.loads(connection.getresponse().read()).get("Parameter", {}).get("Value")

    def accept(self):
        while True:
            client, _ = self.counting.accept()
            server = socket.create_connection(("127.0.0.1", self.port))
            for ends in [(client, server, True), (server, client, False)]:
                threading.Thread(target=self.pass_on, args=ends, daemon=True).start()

    def pass_on(self, source, sink, counts):
        stream = bytearray()
        if counts:
            self.passed.append(stream)
        while data := source.recv(65536):
            if counts:
                self.requests += data.count(b"X-Amz-Target: AmazonSSM.")
                stream += data
            try:
                sink.sendall(data)
            except OSError:
                break
        try:
            sink.shutdown(socket.SHUT_WR)
        except OSError:
            pass

    def alone(self):
        """Seconds that the requests which were passed on take with nobody between: no provider, no daemon."""
        # This provider asks for each on a connection of its own.
        requests = [bytes(stream) for stream in self.passed]

        def ask(some):
            for request in some:
                with socket.create_connection(("127.0.0.1", self.port)) as connection:
                    connection.sendall(request)
                    while connection.recv(65536):
                        pass

        begun = time.monotonic()
        threads = [threading.Thread(target=ask, args=(requests[n::CONNECTIONS],)) for n in range(CONNECTIONS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return time.monotonic() - begun

    def stop(self):
        self.process.terminate()
        self.process.wait()


def resident(pid):
    """Megabytes of a process, and of all below it, pages that several share divided among them."""
    with open(f"/proc/{pid}/smaps_rollup") as lines:
        own = next(int(line.split()[1]) for line in lines if line.startswith("Pss:")) / 1024
    tasks = pathlib.Path(f"/proc/{pid}/task").iterdir()
    children = [int(child) for task in tasks for child in (task / "children").read_text().split()]
    return own, sum(sum(resident(child)) for child in children)


class Ours:
    """A desk with one file for each parameter, and the daemon."""

    def __init__(self, folder, programs, provider, count):
        self.folder, self.count, self.process = folder, count, None
        self.command = [f"{programs}/reconciled", "--config", f"{folder}/config.yaml"]
        self.provider = provider
        self.git(".", "init", "-q", "--bare", "-b", "main", "repo.git")
        self.git(".", "init", "-q", "-b", "main", "work")
        for number in range(count):
            self.write(number, "first")

    def git(self, where, *arguments):
        identity = ["-c", "user.name=bench", "-c", "user.email=bench@example.com"]
        subprocess.run(["git", *identity, *arguments], cwd=self.folder / where, check=True)

    def write(self, number, value):
        (self.folder / "work" / f"p{number}.yaml").write_text(
            f"apiVersion: aws/v1\nkind: SsmParameter\nmetadata: {{name: p{number}}}\n"
            f"spec: {{name: /bench/p{number}, type: String, value: {value}}}\n"
        )

    def push(self):
        self.git("work", "add", "-A")
        self.git("work", "commit", "-q", "-m", "change")
        self.git("work", "push", "-q", "../repo.git", "HEAD:main")

    def configure(self, port, interval="1h"):
        skips = "".join(f"      {word}: true\n" for word in SKIPS)
        (self.folder / "config.yaml").write_text(
            f"instance: bench\nstateDir: {self.folder}/state\n"
            f"sources: [{{name: infra, url: {self.folder}/repo.git, interval: {interval}}}]\n"
            f"providers:\n  - name: aws\n    type: terraform\n    source: hashicorp/aws\n    path: {self.provider}\n"
            f"    settle: 0s\n    resync: 24h\n    guard: {{maxUpdates: 100000, maxUpdatePercent: 100}}\n"
            f"    config:\n      region: us-east-1\n      access_key: AKIAEXAMPLE\n      secret_key: {{file: {self.folder}/key}}\n{skips}"
            f"      endpoints: [{{ssm: 'http://127.0.0.1:{port}', sts: 'http://127.0.0.1:{port}'}}]\n"
        )
        key = self.folder / "key"
        key.write_text("example")
        key.chmod(0o600)

    def run(self, *arguments, codes=(0,)):
        begun = time.monotonic()
        done = subprocess.run([*self.command, *arguments], cwd=self.folder, capture_output=True, text=True)
        if done.returncode not in codes:
            sys.exit(f"reconciled {' '.join(arguments)}: {done.returncode}\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
        return time.monotonic() - begun, done.stdout + done.stderr

    def start(self):
        log = open(self.folder / "daemon.log", "ab")
        self.process = subprocess.Popen([*self.command, "run"], cwd=self.folder, stdout=log, stderr=log)
        wait_for("the daemon", (self.folder / "state" / "api.sock").exists)
        self.run("sync", "--wait", "--timeout", "5m")

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait()


def ours(server, folder, programs, provider, count, runs):
    desk = Ours(folder, programs, provider, count)
    desk.configure(server.port)
    desk.push()
    first = desk.run("apply", "--yes", "--timeout", "1h")[0]
    schema = statistics.median(desk.run("explain", "SsmParameter")[0] for _ in range(runs))
    desk.start()
    desk.run("plan")
    no_op = statistics.median(desk.run("plan", "--detailed-exitcode")[0] for _ in range(runs))
    time.sleep(10)
    memory = {"soon": resident(desk.process.pid)}
    # What a provider in Go has let go of it looks for every two minutes, where nothing else makes it.
    time.sleep(140)
    memory["idle"] = resident(desk.process.pid)
    desk.stop()
    # The same again past what counts, which is slower.
    counting = server.counting.getsockname()[1]
    desk.configure(counting)
    desk.start()
    server.requests, server.passed = 0, []
    desk.run("plan", "--detailed-exitcode")
    whole, alone = server.requests, server.alone()
    desk.write(count // 2, "second")
    desk.push()
    server.requests = 0
    target = f"SsmParameter/p{count // 2}"
    desk.run("plan", "--rev", "main", "--target", target, "--detailed-exitcode", codes=(2,))
    chosen = server.requests
    desk.run("sync", "--wait", "--timeout", "5m")
    desk.stop()
    # Nobody asks now: the daemon finds the commit by itself.
    desk.configure(counting, "1s")
    desk.start()
    desk.write(count // 2, "third")
    server.requests = 0
    desk.push()
    wait_for("the change", lambda: server.value(f"/bench/p{count // 2}") == "third")
    time.sleep(5)
    pushed = server.requests
    desk.stop()
    return {
        "apply": first,
        "no-op plan": no_op,
        "schema": schema,
        "memory": memory,
        "alone": alone,
        "requests": {"plan": whole, "plan --target of one changed file": chosen, "commit of one changed file": pushed},
    }


def terraforms(server, folder, terraform, provider, count, runs):
    mirror = folder / "mirror" / "mirror.test" / "hashicorp" / "aws" / "3.39.0" / "linux_amd64"
    mirror.mkdir(parents=True)
    shutil.copy(provider, mirror / "terraform-provider-aws_v3.39.0_x5")
    (folder / "rc").write_text(f'provider_installation {{ filesystem_mirror {{ path = "{folder}/mirror" }} }}\n')
    skips = "".join(f"  {word} = true\n" for word in SKIPS)
    (folder / "main.tf").write_text(
        'terraform {\n  required_providers {\n    aws = { source = "mirror.test/hashicorp/aws" }\n  }\n}\n'
        f'provider "aws" {{\n  region = "us-east-1"\n{skips}  endpoints {{\n'
        f'    ssm = "http://127.0.0.1:{server.port}"\n    sts = "http://127.0.0.1:{server.port}"\n  }}\n}}\n'
        + "".join(
            f'resource "aws_ssm_parameter" "p{n}" {{\n  name = "/terraform/p{n}"\n  type = "String"\n  value = "first"\n}}\n'
            for n in range(count)
        )
    )
    surroundings = {**os.environ, **CREDENTIALS, "TF_CLI_CONFIG_FILE": str(folder / "rc"), "CHECKPOINT_DISABLE": "1"}

    def run(*arguments):
        begun = time.monotonic()
        done = subprocess.run([terraform, *arguments], cwd=folder, env=surroundings, capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(f"terraform {' '.join(arguments)}:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
        return time.monotonic() - begun

    run("init", "-input=false")
    first = run("apply", "-auto-approve", "-input=false")
    plan = ["plan", "-detailed-exitcode", "-input=false"]
    no_op = statistics.median(run(*plan) for _ in range(runs))
    return {"apply": first, "no-op plan": no_op}


def main(options, terraform):
    provider = os.environ.get("RECONCILED_TEST_AWS_PROVIDER")
    ministack = os.environ.get("RECONCILED_TEST_MINISTACK")
    if not provider or not ministack:
        sys.exit("RECONCILED_TEST_AWS_PROVIDER and RECONCILED_TEST_MINISTACK are not set: tests/run installs and names both")
    count, runs = options.parameters, options.runs
    with tempfile.TemporaryDirectory() as scratch:
        scratch = pathlib.Path(scratch)
        server = MiniStack(ministack, scratch)
        try:
            (scratch / "ours").mkdir()
            found = {"reconciled": ours(server, scratch / "ours", options.bin.resolve(), provider, count, runs)}
            if terraform:
                (scratch / "terraform").mkdir()
                found["terraform"] = terraforms(server, scratch / "terraform", terraform, provider, count, runs)
        finally:
            server.stop()
    mine, theirs = found["reconciled"], found.get("terraform")
    print(f"{count} aws_ssm_parameter, provider {re.sub('.*_v|_x5', '', provider)}, MiniStack, median of {runs}\n")
    print("| what | reconciled | terraform | |\n|---|---|---|---|")
    for what in ["apply", "no-op plan"]:
        other = f"{theirs[what]:.2f} s | {theirs[what] / mine[what]:.1f}×" if theirs else " | "
        print(f"| {what} | {mine[what]:.2f} s | {other} |")
    reads = count / mine["no-op plan"]
    print(f"\nreads: {reads:.0f}/s · wanted {READS}: {'met' if reads >= READS else 'missed'}")
    if not server.is_fast:
        print("MiniStack without uvloop: `tests/run` installs it")
    print(f"MiniStack alone, asked the same without daemon and provider: {count / mine['alone']:.0f}/s")
    for when, after in [("soon", "10 s after a plan"), ("idle", "idle, 150 s after it")]:
        daemon, plugin = mine["memory"][when]
        met = "met" if daemon + plugin <= MEMORY else "missed"
        print(f"memory {after}: {daemon + plugin:.0f} MB, daemon {daemon:.0f} and provider {plugin:.0f} · wanted {MEMORY}: {met}")
    print(f"schema from the cache, with the start of a process: {mine['schema'] * 1000:.0f} ms · wanted {SCHEMA * 1000:.0f}")
    for what, requests in mine["requests"].items():
        print(f"requests of a {what}: {requests}")
