"""The daemon under everything at once: churn, kills, a server that fails, and people who edit by hand."""

import collections
import http.client
import http.server
import pathlib
import random
import signal
import subprocess
import threading
import time
import urllib.error
import urllib.parse

# Of 100 calls while faults are on: so many answered by 500, lost before they arrive, done but not answered, slow.
REFUSED, LOST, UNANSWERED, SLOW = 4, 3, 3, 5
HOP = ("connection", "transfer-encoding", "content-length", "keep-alive")


class Proxy:
    """Between the daemon and PowerDNS. Counts what it did by kind."""

    def __init__(self, url, seed):
        self.target = urllib.parse.urlsplit(url)
        self.on, self.counts, self.dice = False, collections.Counter(), random.Random(seed)
        self.lock = threading.Lock()
        proxy = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def forward(self):
                proxy.handle(self)

            do_GET = do_PATCH = do_POST = do_PUT = do_DELETE = forward

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        # A killed daemon resets its connections.
        self.server.handle_error = lambda *_: None
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def fate(self, is_write):
        with self.lock:
            self.counts["calls"] += 1
            self.counts["writes"] += is_write
            number = self.dice.randrange(100) if self.on else 99
            for word, share in (("refused", REFUSED), ("lost", LOST), ("unanswered", UNANSWERED), ("slow", SLOW)):
                if number < share:
                    self.counts[word] += 1
                    return word
                number -= share
        return "good"

    def handle(self, request):
        body = request.rfile.read(int(request.headers.get("Content-Length") or 0))
        fate = self.fate(request.command not in ("GET", "HEAD"))
        try:
            if fate == "refused":
                request.send_response(500)
                request.send_header("Content-Length", "0")
                request.end_headers()
                return
            if fate == "lost":
                request.close_connection = True
                request.connection.close()
                return
            if fate == "slow":
                time.sleep(self.dice.uniform(0.1, 2))
            upstream = http.client.HTTPConnection(self.target.hostname, self.target.port, timeout=60)
            headers = {name: value for name, value in request.headers.items() if name.lower() not in (*HOP, "host")}
            upstream.request(request.command, request.path, body or None, headers)
            answer = upstream.getresponse()
            text = answer.read()
            upstream.close()
            if fate == "unanswered":
                request.close_connection = True
                request.connection.close()
                return
            request.send_response(answer.status)
            for name, value in answer.getheaders():
                if name.lower() not in HOP:
                    request.send_header(name, value)
            request.send_header("Content-Length", str(len(text)))
            request.end_headers()
            request.wfile.write(text)
        except OSError:
            # The daemon was killed in the middle of it.
            request.close_connection = True


class Soak:
    """The desired state as the test knows it, and what it did."""

    def __init__(self, desk, proxy, options):
        self.desk, self.proxy, self.options = desk, proxy, options
        self.dice = random.Random(options.seed)
        self.counts = collections.Counter()
        self.zones = {f"z{n}.test": {f"h{r}": f"10.0.{r >> 8}.{r & 255}" for r in range(options.size)}
                      for n in range(options.zones)}
        self.foreign, self.fresh, self.lives = {}, 0, []

    def write(self, zone):
        lines = [f"apiVersion: dns/v1\nkind: Zone\nmetadata: {{name: {zone}}}\nspec:\n  ttl: 300\n  records:\n"]
        lines += [f"    - {{name: {name}, type: A, values: [{value}]}}\n" for name, value in self.zones[zone].items()]
        (self.desk.dir / "work" / f"{zone}.yaml").write_text("".join(lines))

    def churn(self, records):
        """One push that changes, removes and adds so many records."""
        touched = set()
        for _ in range(records):
            zone = self.dice.choice(list(self.zones))
            touched.add(zone)
            names, roll = self.zones[zone], self.dice.random()
            if roll < 0.1:
                del names[self.dice.choice(list(names))]
                self.counts["records removed"] += 1
            elif roll < 0.2:
                self.fresh += 1
                names[f"new{self.fresh}"] = f"10.9.{self.fresh >> 8 & 255}.{self.fresh & 255}"
                self.counts["records added"] += 1
            else:
                names[self.dice.choice(list(names))] = f"10.{self.dice.randrange(1, 250)}.{self.dice.randrange(256)}.7"
                self.counts["records changed"] += 1
        for zone in touched:
            self.write(zone)
        self.desk.commit()
        push = subprocess.run(["git", "-C", str(self.desk.dir / "work"), "push", "-q", "-o", "reconciled.wait=0",
                               "origin", "main"], env=self.desk.environment, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True)
        self.counts["pushes"] += 1
        if push.returncode:
            raise SystemExit(f"error: a push was refused:\n{push.stdout}")

    def by_hand(self):
        """Somebody changes, deletes or adds a record past the daemon."""
        zone = self.dice.choice(list(self.zones))
        rrset = {"type": "A", "ttl": 300, "changetype": "REPLACE"}
        kind = self.dice.choice(("changed", "deleted", "added"))
        if kind == "added":
            name = f"foreign{len(self.foreign)}.{zone}."
            self.foreign[zone + ".", name] = content = "192.0.2.99"
        else:
            name, content = f"{self.dice.choice(list(self.zones[zone]))}.{zone}.", "192.0.2.66"
        rrset |= {"name": name, "records": [{"content": content, "disabled": False}]}
        if kind == "deleted":
            rrset |= {"changetype": "DELETE", "records": []}
        # Its SQLite gives up at once on two who write at the same time: a person tries again.
        for _ in range(50):
            try:
                self.desk.server.call("PATCH", f"/zones/{zone}.", {"rrsets": [rrset]})
                break
            except urllib.error.HTTPError as error:
                said = error.read()
                time.sleep(0.1)
        else:
            raise SystemExit(f"error: by hand: {said}")
        self.counts[f"by hand {kind}"] += 1

    def kill(self):
        self.desk.daemon.send_signal(signal.SIGKILL)
        self.desk.daemon.wait()
        (self.desk.dir / "state/api.sock").unlink(missing_ok=True)
        self.counts["kills"] += 1
        self.desk.start()
        self.lives.append([])

    def memory(self):
        text = pathlib.Path(f"/proc/{self.desk.daemon.pid}/status").read_text()
        return next(int(line.split()[1]) / 1024 for line in text.splitlines() if line.startswith("VmRSS"))

    def run(self):
        """Everything at once, until the time is over."""
        desk, end = self.desk, time.monotonic() + self.options.minutes * 60
        total = sum(len(names) for names in self.zones.values())
        # One percent a minute, in six pushes.
        portion, self.lives = max(1, total // 600), [[]]
        due = {"push": 0.0, "hand": 0.0, "kill": time.monotonic() + 20, "memory": 0.0}
        self.proxy.on = True
        # In the last third nobody kills: a daemon that leaks would grow.
        last_kill = end - self.options.minutes * 20
        while (now := time.monotonic()) < end:
            if desk.daemon.poll() is not None:
                raise SystemExit(f"error: the daemon ended by itself with {desk.daemon.returncode}")
            if now >= due["push"]:
                self.churn(portion)
                due["push"] = now + 10
            if now >= due["hand"]:
                self.by_hand()
                due["hand"] = now + self.dice.uniform(1, 5)
            if due["kill"] <= now < last_kill:
                self.kill()
                due["kill"] = now + self.dice.uniform(5, 40)
            if now >= due["memory"]:
                self.lives[-1].append(self.memory())
                due["memory"] = now + 1
            time.sleep(0.05)
        self.proxy.on = False

    def differences(self):
        """What PowerDNS has and should not, or has not and should."""
        wrong = []
        for zone, names in self.zones.items():
            wanted = {(f"{name}.{zone}.", "A"): [value] for name, value in names.items()}
            wanted |= {(name, "A"): [value] for (of, name), value in self.foreign.items() if of == zone + "."}
            found = self.desk.server.rrsets(f"{zone}.")
            wrong += [key for key in wanted.keys() | found.keys() if wanted.get(key) != found.get(key)]
        return wrong


def soak(options, scratch, desk_of):
    # The proxy has to know the server, the configuration the proxy.
    desk = desk_of(scratch / "soak", ", resync: 30s")
    proxy = Proxy(desk.server.url, options.seed)
    config = scratch / "soak/config.yaml"
    config.write_text(config.read_text().replace(desk.server.url, proxy.url))
    test = Soak(desk, proxy, options)
    for zone in test.zones:
        test.write(zone)
    desk.commit()
    desk.git("push", "-q", "origin", "main")
    desk.start()
    desk.call(options.binary, "sync", "--wait", "--timeout", "30m")
    test.run()
    desk.call(options.binary, "sync", "--wait", "--timeout", "10m")
    # What was edited by hand last is found by a resync.
    deadline = time.monotonic() + 180
    while (wrong := test.differences()) and time.monotonic() < deadline:
        time.sleep(1)
    plan = subprocess.run([options.binary, "plan", "--refresh"], env=desk.environment, stdout=subprocess.PIPE, text=True)
    time.sleep(5)
    before, (calls, writes) = store(desk), (proxy.counts["calls"], proxy.counts["writes"])
    time.sleep(options.rest)
    still = store(desk) == before and proxy.counts["writes"] == writes
    chain = subprocess.run([options.binary, "events", "--verify"], env=desk.environment, stdout=subprocess.PIPE,
                           stderr=subprocess.STDOUT, text=True)
    last = test.lives[-1]
    half = len(last) // 2
    early, late = (sorted(part)[len(part) // 2] for part in (last[:half], last[half:]))
    desk.stop()
    records = sum(len(names) for names in test.zones.values())
    print(f"\nSoak of {options.minutes:g} minutes, {options.zones} zones, {records} records at the end, "
          f"seed {options.seed}:\n")
    print("| what happened | count |\n|---|---|")
    for word, count in [*test.counts.items(), *((f"calls {word}", n) for word, n in proxy.counts.items())]:
        print(f"| {word} | {count} |")
    print("\n| at the end | | |\n|---|---|---|")
    verdict = lambda good: "met" if good else "MISSED"
    print(f"| records that differ | {len(wrong)} | {verdict(not wrong)} |")
    print(f"| `plan --refresh` | exit {plan.returncode} | {verdict(plan.returncode == 0)} |")
    print(f"| at rest for {options.rest} s | {'no write' if still else 'written'}, "
          f"{proxy.counts['calls'] - calls} calls | {verdict(still)} |")
    print(f"| audit trail | {chain.stdout.strip().splitlines()[-1]} | {verdict(chain.returncode == 0)} |")
    print(f"| memory of the last life, first and second half | {early:.0f} MB, {late:.0f} MB | "
          f"{verdict(late <= early * 1.1)} |")
    if wrong:
        print("\n".join(str(key) for key in wrong[:20]))
    return not wrong and still and plan.returncode == 0 and chain.returncode == 0


def store(desk):
    files = (desk.dir / "state").glob("state.db*")
    return {f.name: (f.stat().st_size, f.stat().st_mtime_ns) for f in files if not f.name.endswith("-shm")}
